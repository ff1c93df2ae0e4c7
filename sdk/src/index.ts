/** `@letterhaus/sdk`: sends emails with Letterhaus and reads what happened to them. */
export type * from './api.ts';
export { type BatchOptions, type EmailToSend, Letterhaus, type SendOptions } from './client.ts';
export { ConnectionError, type ErrorCode, LetterhausError, SignatureError } from './errors.ts';
export type { StreamOptions } from './event-stream.ts';
export type { Page, Pages } from './pages.ts';
export type { CallOptions, LetterhausOptions } from './transport.ts';
export { verifyWebhook, type WebhookEvent, type WebhookToVerify } from './webhooks.ts';
