/** `@letterhaus/sdk`: sends emails with Letterhaus and reads what happened to them. */
export type * from './api.ts';
export type { AttachmentContent, AttachmentToSend } from './attachments.ts';
export { type BatchOptions, type EmailToSend, Letterhaus, type SendOptions } from './client.ts';
export {
  ConnectionError,
  type ErrorCode,
  LetterhausError,
  RedirectError,
  SignatureError,
} from './errors.ts';
export type { ChangeOptions } from './resource.ts';
export type { StreamOptions } from './event-stream.ts';
export type { EventData, EventType, StreamEvent, WebhookEvent } from './events.ts';
export type { Page, Pages } from './pages.ts';
export type { CallOptions, LetterhausOptions } from './transport.ts';
export { verifyWebhook, type WebhookHeaders, type WebhookToVerify } from './webhooks.ts';
