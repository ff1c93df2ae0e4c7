/** `@posthorn/sdk`: sends emails with Posthorn and reads what happened to them. */
export type * from './api.ts';
export { type BatchOptions, type EmailToSend, Posthorn, type SendOptions } from './client.ts';
export { ConnectionError, type ErrorCode, PosthornError, SignatureError } from './errors.ts';
export type { StreamOptions } from './event-stream.ts';
export type { Page, Pages } from './pages.ts';
export type { CallOptions, PosthornOptions } from './transport.ts';
export { verifyWebhook, type WebhookEvent, type WebhookToVerify } from './webhooks.ts';
