/**
 * The client: a resource for each part of the API, a method for each operation. Fields are named as in the
 * API; what a method takes and returns is typed from the same schemas that the service checks with.
 */
import {
  AuditLog,
  Members,
  Operator,
  Projects,
  Recipients,
  Requests,
  Service,
} from './administration.ts';
import type { AcceptedBatch, AcceptedEmail, DryRun, EmailCreation } from './api.ts';
import { attachmentsOf, type AttachmentToSend } from './attachments.ts';
import { type StreamOptions, streamEvents } from './event-stream.ts';
import type { StreamEvent } from './events.ts';
import { Resource } from './resource.ts';
import {
  type Body,
  type CallOptions,
  type LetterhausOptions,
  type Query,
  type Result,
  Transport,
} from './transport.ts';

/** An email; with `renderReact`, `react` instead of `html`. Attachments may be bytes. */
export type EmailToSend = Omit<EmailCreation, 'attachments'> & {
  react?: unknown;
  attachments?: AttachmentToSend[] | undefined;
};

export type SendOptions = CallOptions & {
  /** The same key sends only once, within 24 hours. Default: a new one for each call. */
  idempotencyKey?: string | undefined;
};

export type BatchOptions = SendOptions & {
  /** `strict` (default) accepts all or none; `permissive` accepts what it can and reports the others. */
  validation?: 'strict' | 'permissive' | undefined;
};

/**
 * ```ts
 * const letterhaus = new Letterhaus({ baseUrl: 'https://mail.acme.com', apiKey: 'lh_live_…' });
 * ```
 * @throws TypeError without a key or an address
 */
export class Letterhaus {
  readonly emails: Emails;
  readonly events: Events;
  readonly stats: Stats;
  readonly queue: Queue;
  readonly domains: Domains;
  readonly webhooks: Webhooks;
  readonly suppressions: Suppressions;
  readonly templates: Templates;
  readonly apiKeys: ApiKeys;
  readonly projects: Projects;
  readonly requests: Requests;
  readonly recipients: Recipients;
  readonly members: Members;
  readonly auditLog: AuditLog;
  readonly service: Service;
  readonly operator: Operator;

  constructor(options: LetterhausOptions = {}) {
    const transport = new Transport(options);
    this.emails = new Emails(transport);
    this.events = new Events(transport);
    this.stats = new Stats(transport);
    this.queue = new Queue(transport);
    this.domains = new Domains(transport);
    this.webhooks = new Webhooks(transport);
    this.suppressions = new Suppressions(transport);
    this.templates = new Templates(transport);
    this.apiKeys = new ApiKeys(transport);
    this.projects = new Projects(transport);
    this.requests = new Requests(transport);
    this.recipients = new Recipients(transport);
    this.members = new Members(transport);
    this.auditLog = new AuditLog(transport);
    this.service = new Service(transport);
    this.operator = new Operator(transport);
  }
}

class Emails extends Resource {
  /** Accepts an email for delivery. Repeats safely: each call has an idempotency key. */
  async send(email: EmailToSend, options: SendOptions = {}): Promise<AcceptedEmail> {
    const body = await this.#prepared(email);
    return (await this.transport.json('sendEmail', {
      body,
      headers: { 'idempotency-key': options.idempotencyKey ?? crypto.randomUUID() },
      signal: options.signal,
    })) as AcceptedEmail;
  }

  /** What would happen to an email: stores and sends nothing. */
  async dryRun(email: EmailToSend, { signal }: CallOptions = {}): Promise<DryRun> {
    const body = await this.#prepared(email);
    const call = { body, query: { dry_run: true }, signal };
    return (await this.transport.json('sendEmail', call)) as DryRun;
  }

  /** Accepts up to 100 emails with one request. */
  async sendBatch(emails: EmailToSend[], options: BatchOptions = {}): Promise<AcceptedBatch> {
    const body = await Promise.all(
      emails.map((email, index) => this.#prepared(email, `emails[${index}].`)),
    );
    return this.transport.json('sendEmailBatch', {
      body,
      headers: {
        'idempotency-key': options.idempotencyKey ?? crypto.randomUUID(),
        ...(options.validation && { 'x-batch-validation': options.validation }),
      },
      signal: options.signal,
    });
  }

  list(query: Query<'listEmails'> = {}) {
    return this.pages('listEmails', { query });
  }

  get(id: string) {
    return this.call('getEmail', { id });
  }

  reschedule(id: string, change: Body<'rescheduleEmail'>) {
    return this.call('rescheduleEmail', { id }, change);
  }

  cancel(id: string) {
    return this.call('cancelEmail', { id });
  }

  /** Everything that happened to an email, in order. */
  events(id: string, query: Query<'listEmailEvents'> = {}) {
    const positionOf = ({ number }: { number: number }) => String(number);
    return this.pages('listEmailEvents', { path: { id }, query, positionOf });
  }

  /** The message as it is sent (RFC 5322). */
  content(id: string, query: Query<'getEmailContent'> = {}): Promise<Uint8Array> {
    return this.transport.bytes('getEmailContent', { path: { id }, query });
  }

  /** What is in the message: header, attachments, links, and advice. */
  inspect(id: string) {
    return this.call('inspectEmail', { id });
  }

  /** @param number of `attachments` of `inspect` */
  attachment(id: string, number: number): Promise<Uint8Array> {
    return this.transport.bytes('downloadEmailAttachment', { path: { id, number } });
  }

  /** What webhooks were sent about it: the newest 100. */
  webhookDeliveries(id: string) {
    return this.call('listEmailWebhookDeliveries', { id });
  }

  /** A link that shows the email to whoever has it, for 48 hours at most. */
  share(id: string, options: Body<'shareEmail'> = {}) {
    return this.call('shareEmail', { id }, options);
  }

  /** Why an email is slow, or not there. */
  diagnose(id: string) {
    return this.call('diagnoseEmail', { id });
  }

  /** @param place of the email in a batch, for errors */
  async #prepared(
    { react, attachments, ...email }: EmailToSend,
    place = '',
  ): Promise<EmailCreation> {
    return {
      ...email,
      ...(react !== undefined && { html: await this.#rendered(react) }),
      ...(attachments && { attachments: await attachmentsOf(attachments, place) }),
    };
  }

  async #rendered(react: unknown): Promise<string> {
    const { options } = this.transport;
    if (!options.renderReact) {
      throw new TypeError('renderReact is needed to send a React element.');
    }
    return options.renderReact(react);
  }
}

type EventPage = Omit<Result<'listEvents'>, 'data'> & { data: StreamEvent[] };

class Events extends Resource {
  /** A page of the event stream; its `cursor` is where the next one starts, also when `data` is empty. */
  async list(query: Query<'listEvents'> = {}): Promise<EventPage> {
    return (await this.transport.json('listEvents', { query })) as EventPage;
  }

  /** Every event after `after` and each that follows, until `signal` ends it. It reconnects by itself. */
  stream(options: StreamOptions = {}): AsyncIterable<StreamEvent> {
    return streamEvents(this.transport, options);
  }
}

class Stats extends Resource {
  /** How much was sent and what became of it, by hour or by day; by default the last 30 days. */
  get(query: Query<'getStats'> = {}): Promise<Result<'getStats'>> {
    return this.transport.json('getStats', { query });
  }
}

class Queue extends Resource {
  /** What waits, by provider and by project. */
  get(query: Query<'getQueue'> = {}): Promise<Result<'getQueue'>> {
    return this.transport.json('getQueue', { query });
  }

  /** With the settings in effect, and what the provider said last. */
  getProvider(provider: string): Promise<Result<'getQueueProvider'>> {
    return this.call('getQueueProvider', { provider });
  }

  /** @param selection with `from` of the result's `next`, it goes on with a large queue; as do the next two */
  hold(selection: Body<'holdQueue'>) {
    return this.call('holdQueue', {}, selection);
  }

  release(selection: Body<'releaseQueue'>) {
    return this.call('releaseQueue', {}, selection);
  }

  retry(selection: Body<'retryQueue'>) {
    return this.call('retryQueue', {}, selection);
  }

  /** Holds the mail, and cancels it a minute later unless `undoDrop` comes before. */
  drop(selection: Body<'dropQueue'>) {
    return this.call('dropQueue', {}, selection);
  }

  undoDrop(id: string) {
    return this.call('undoQueueDrop', { id });
  }
}

class Domains extends Resource {
  create(domain: Body<'createDomain'>) {
    return this.call('createDomain', {}, domain);
  }

  list(query: Query<'listDomains'> = {}) {
    return this.pages('listDomains', { query });
  }

  /** @param query with `waiting: true` also how many recipients wait for its mail */
  get(id: string, query: Query<'getDomain'> = {}): Promise<Result<'getDomain'>> {
    return this.transport.json('getDomain', { path: { id }, query });
  }

  update(id: string, change: Body<'updateDomain'>) {
    return this.call('updateDomain', { id }, change);
  }

  delete(id: string) {
    return this.call('deleteDomain', { id });
  }

  /** Looks the records up now. */
  verify(id: string) {
    return this.call('verifyDomain', { id });
  }

  /** New DKIM keys beside the present ones: they sign once their records are published. */
  rotateDkim(id: string) {
    return this.call('rotateDomainDkim', { id });
  }

  /** Before the new keys sign. */
  cancelDkimRotation(id: string) {
    return this.call('cancelDomainDkimRotation', { id });
  }
}

class Webhooks extends Resource {
  /** The only response with `signing_secret`, but for that of `rotateSecret`. */
  create(webhook: Body<'createWebhook'>) {
    return this.call('createWebhook', {}, webhook);
  }

  list(query: Query<'listWebhooks'> = {}) {
    return this.pages('listWebhooks', { query });
  }

  get(id: string) {
    return this.call('getWebhook', { id });
  }

  update(id: string, change: Body<'updateWebhook'>) {
    return this.call('updateWebhook', { id }, change);
  }

  delete(id: string) {
    return this.call('deleteWebhook', { id });
  }

  /** Requests carry the signatures of both secrets for a while. */
  rotateSecret(id: string) {
    return this.call('rotateWebhookSecret', { id });
  }

  /** Sends a `webhook.test` event now. */
  test(id: string) {
    return this.call('testWebhook', { id });
  }

  deliveries(id: string, query: Query<'listWebhookDeliveries'> = {}) {
    return this.pages('listWebhookDeliveries', { path: { id }, query });
  }

  getDelivery(id: string, deliveryId: string) {
    return this.call('getWebhookDelivery', { id, delivery_id: deliveryId });
  }

  replayDelivery(id: string, deliveryId: string) {
    return this.call('replayWebhookDelivery', { id, delivery_id: deliveryId });
  }

  /** Repeats the deliveries of a time range. */
  replay(id: string, range: Body<'replayWebhook'>) {
    return this.call('replayWebhook', { id }, range);
  }

  getReplay(id: string, replayId: string) {
    return this.call('getWebhookReplay', { id, replay_id: replayId });
  }
}

class Suppressions extends Resource {
  create(suppression: Body<'createSuppression'>) {
    return this.call('createSuppression', {}, suppression);
  }

  list(query: Query<'listSuppressions'> = {}) {
    const positionOf = ({ address }: { address: string }) => address;
    return this.pages('listSuppressions', { query, positionOf });
  }

  get(address: string) {
    return this.call('getSuppression', { address });
  }

  delete(address: string) {
    return this.call('deleteSuppression', { address });
  }

  history(address: string) {
    return this.call('listSuppressionHistory', { address });
  }

  /** CSV. */
  async export(query: Query<'exportSuppressions'> = {}): Promise<string> {
    const bytes = await this.transport.bytes('exportSuppressions', { query });
    return new TextDecoder().decode(bytes);
  }

  /**
   * @param list CSV: a header line with `address`, then one address for each line; or the list of another
   *   service, as CSV or JSON
   */
  import(list: string, query: Query<'importSuppressions'> = {}) {
    return this.transport.json('importSuppressions', { query, body: list });
  }
}

class Templates extends Resource {
  create(template: Body<'createTemplate'>) {
    return this.call('createTemplate', {}, template);
  }

  list(query: Query<'listTemplates'> = {}) {
    return this.pages('listTemplates', { query });
  }

  /** @param id or alias, as in the other methods */
  get(id: string) {
    return this.call('getTemplate', { id });
  }

  update(id: string, change: Body<'updateTemplate'>) {
    return this.call('updateTemplate', { id }, change);
  }

  delete(id: string) {
    return this.call('deleteTemplate', { id });
  }

  versions(id: string) {
    return this.call('listTemplateVersions', { id });
  }

  getVersion(id: string, version: number) {
    return this.call('getTemplateVersion', { id, version });
  }

  publish(id: string, which: Body<'publishTemplate'> = {}) {
    return this.call('publishTemplate', { id }, which);
  }

  /** From Handlebars or the syntax of Resend; nothing is stored. */
  translate(template: Body<'translateTemplate'>) {
    return this.call('translateTemplate', {}, template);
  }

  preview(id: string, preview: Body<'previewTemplate'> = {}) {
    return this.call('previewTemplate', { id }, preview);
  }
}

class ApiKeys extends Resource {
  /** The key that this client uses. */
  current() {
    return this.call('getCurrentApiKey');
  }

  /** The only response with the key itself, but for that of `rotate`. */
  create(key: Body<'createApiKey'>) {
    return this.call('createApiKey', {}, key);
  }

  list(query: Query<'listApiKeys'> = {}) {
    return this.pages('listApiKeys', { query });
  }

  update(id: string, change: Body<'updateApiKey'>) {
    return this.call('updateApiKey', { id }, change);
  }

  revoke(id: string) {
    return this.call('revokeApiKey', { id });
  }

  /** A new key with the same rights; the old one ends when `rotation` says. */
  rotate(id: string, rotation: Body<'rotateApiKey'> = {}) {
    return this.call('rotateApiKey', { id }, rotation);
  }
}
