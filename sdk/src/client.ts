/**
 * The client: a resource for each part of the API, a method for each operation. Fields have the names of the API.
 * Arguments and results are typed from the schemas that the service validates with.
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
import type {
  AcceptedBatch,
  AcceptedEmail,
  DryRun,
  EmailCreation,
  SuppressionImport,
} from './api.ts';
import { attachmentsOf, type AttachmentToSend } from './attachments.ts';
import { type StreamOptions, streamEvents } from './event-stream.ts';
import type { StreamEvent } from './events.ts';
import { type ChangeOptions, conditionOf, Resource } from './resource.ts';
import {
  type Body,
  type CallOptions,
  type LetterhausOptions,
  type Query,
  type Result,
  Transport,
} from './transport.ts';

/** An email to send. With `renderReact` it may have `react` instead of `html`. Attachments may be bytes. */
export type EmailToSend = Omit<EmailCreation, 'attachments'> & {
  react?: unknown;
  attachments?: AttachmentToSend[] | undefined;
};

export type SendOptions = CallOptions & {
  /** A key sends only once within 24 hours. By default each call has a new one. */
  idempotencyKey?: string | undefined;
};

export type BatchOptions = SendOptions & {
  /** `strict` (default) accepts all or none. `permissive` accepts the valid emails and reports the others. */
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
  /** Accepts an email for delivery. Each call has an idempotency key, so the client can repeat it safely. */
  async send(email: EmailToSend, options: SendOptions = {}): Promise<AcceptedEmail> {
    const body = await this.#prepared(email);
    return (await this.transport.json('sendEmail', {
      body,
      headers: { 'idempotency-key': options.idempotencyKey ?? crypto.randomUUID() },
      signal: options.signal,
    })) as AcceptedEmail;
  }

  /** Reports what would happen to an email, without storing or sending it. */
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

  /** Counts the emails of a list by status. */
  counts(query: Query<'countEmails'> = {}): Promise<Result<'countEmails'>> {
    return this.transport.json('countEmails', { query });
  }

  get(id: string) {
    return this.call('getEmail', { id });
  }

  reschedule(id: string, change: Body<'rescheduleEmail'>, options?: ChangeOptions) {
    return this.call('rescheduleEmail', { id }, change, conditionOf(options));
  }

  cancel(id: string) {
    return this.call('cancelEmail', { id });
  }

  /** Cancels scheduled emails. Repeat it with `from`, the `next` of the result, until that is null. */
  cancelMany(selection: Body<'cancelEmails'>) {
    return this.call('cancelEmails', {}, selection);
  }

  /** Returns the events of an email, in order. */
  events(id: string, query: Query<'listEmailEvents'> = {}) {
    const positionOf = ({ number }: { number: number }) => String(number);
    return this.pages('listEmailEvents', { path: { id }, query, positionOf });
  }

  /** Returns the bytes of the message that the recipient's server gets (RFC 5322). */
  content(id: string, query: Query<'getEmailContent'> = {}): Promise<Uint8Array> {
    return this.transport.bytes('getEmailContent', { path: { id }, query });
  }

  /** Returns the parts of the message (header, attachments, links) and advice. */
  inspect(id: string) {
    return this.call('inspectEmail', { id });
  }

  /** @param number number in `attachments` of `inspect` */
  attachment(id: string, number: number): Promise<Uint8Array> {
    return this.transport.bytes('downloadEmailAttachment', { path: { id, number } });
  }

  /** Returns the newest 100 webhook deliveries about the email. */
  webhookDeliveries(id: string) {
    return this.call('listEmailWebhookDeliveries', { id });
  }

  /** Creates a link that shows the email for at most 48 hours. Anyone with the link can open it. */
  share(id: string, options: Body<'shareEmail'> = {}) {
    return this.call('shareEmail', { id }, options);
  }

  /** Explains why an email is slow or did not arrive. */
  diagnose(id: string) {
    return this.call('diagnoseEmail', { id });
  }

  /** Returns a signed file with everything known about the delivery, for the support of a provider. */
  caseFile(id: string, query: Query<'getEmailCaseFile'> = {}): Promise<Result<'getEmailCaseFile'>> {
    return this.transport.json('getEmailCaseFile', { path: { id }, query });
  }

  /** @param place prefix of field names in errors, for an email in a batch */
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
  /** Returns a page of the event stream. The next page starts at its `cursor`, even when `data` is empty. */
  async list(query: Query<'listEvents'> = {}): Promise<EventPage> {
    return (await this.transport.json('listEvents', { query })) as EventPage;
  }

  /** Yields every event after `after`, then new events until `signal` is aborted. Reconnects automatically. */
  stream(options: StreamOptions = {}): AsyncIterable<StreamEvent> {
    return streamEvents(this.transport, options);
  }
}

class Stats extends Resource {
  /** Counts sent emails and their outcomes, by hour or by day. Default: the last 30 days. */
  get(query: Query<'getStats'> = {}): Promise<Result<'getStats'>> {
    return this.transport.json('getStats', { query });
  }
}

class Queue extends Resource {
  /** Returns the queued mail, by provider and by project. */
  get(query: Query<'getQueue'> = {}): Promise<Result<'getQueue'>> {
    return this.transport.json('getQueue', { query });
  }

  /** Includes the settings in effect and the provider's latest replies. */
  getProvider(provider: string): Promise<Result<'getQueueProvider'>> {
    return this.call('getQueueProvider', { provider });
  }

  /** @param selection for a large queue, pass `next` of the result as `from`, as in the next two methods */
  hold(selection: Body<'holdQueue'>) {
    return this.call('holdQueue', {}, selection);
  }

  release(selection: Body<'releaseQueue'>) {
    return this.call('releaseQueue', {}, selection);
  }

  retry(selection: Body<'retryQueue'>) {
    return this.call('retryQueue', {}, selection);
  }

  /** Puts the mail on hold and cancels it after one minute, unless `undoDrop` is called before. */
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

  /** @param query with `waiting: true`, the result has the number of recipients that wait for its mail */
  get(id: string, query: Query<'getDomain'> = {}): Promise<Result<'getDomain'>> {
    return this.transport.json('getDomain', { path: { id }, query });
  }

  update(id: string, change: Body<'updateDomain'>, options?: ChangeOptions) {
    return this.call('updateDomain', { id }, change, conditionOf(options));
  }

  delete(id: string, options?: ChangeOptions) {
    return this.call('deleteDomain', { id }, undefined, conditionOf(options));
  }

  /** What receivers reported about DMARC, and the next policy as a proposal. */
  dmarc(id: string) {
    return this.call('getDomainDmarc', { id });
  }

  /** Looks up the records now. */
  verify(id: string) {
    return this.call('verifyDomain', { id });
  }

  /** Adds the missing records at the DNS provider of the service. For owners, on the machine of the service. */
  publish(id: string, { dryRun = false }: { dryRun?: boolean } = {}) {
    return this.call('publishDomainRecords', { id }, { dry_run: dryRun });
  }

  /** Creates the next DKIM keys. They sign as soon as their records are published. */
  rotateDkim(id: string) {
    return this.call('rotateDomainDkim', { id });
  }

  /** Cancels a rotation, until the new keys sign. */
  cancelDkimRotation(id: string) {
    return this.call('cancelDomainDkimRotation', { id });
  }
}

class Webhooks extends Resource {
  /** Like `rotateSecret`, returns `signing_secret`. Other methods never do. */
  create(webhook: Body<'createWebhook'>) {
    return this.call('createWebhook', {}, webhook);
  }

  list(query: Query<'listWebhooks'> = {}) {
    return this.pages('listWebhooks', { query });
  }

  get(id: string) {
    return this.call('getWebhook', { id });
  }

  update(id: string, change: Body<'updateWebhook'>, options?: ChangeOptions) {
    return this.call('updateWebhook', { id }, change, conditionOf(options));
  }

  delete(id: string, options?: ChangeOptions) {
    return this.call('deleteWebhook', { id }, undefined, conditionOf(options));
  }

  /** For 24 hours, requests have the signatures of both secrets. */
  rotateSecret(id: string) {
    return this.call('rotateWebhookSecret', { id });
  }

  /** Sends a `webhook.test` event, or an example of another type, now. */
  test(id: string, options: Body<'testWebhook'> = {}) {
    return this.call('testWebhook', { id }, options);
  }

  /** Returns deliveries by interval, and failures grouped by response. */
  statistics(id: string, query: Query<'getWebhookStatistics'> = {}) {
    return this.transport.json('getWebhookStatistics', { path: { id }, query });
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

  /** Replays up to 500 deliveries. */
  replayDeliveries(id: string, ids: string[]) {
    return this.call('replayWebhookDeliveries', { id }, { ids });
  }

  /** Replays the deliveries of a period. */
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

  delete(address: string, options?: ChangeOptions) {
    return this.call('deleteSuppression', { address }, undefined, conditionOf(options));
  }

  history(address: string) {
    return this.call('listSuppressionHistory', { address });
  }

  /** Returns CSV. */
  async export(query: Query<'exportSuppressions'> = {}): Promise<string> {
    const bytes = await this.transport.bytes('exportSuppressions', { query });
    return new TextDecoder().decode(bytes);
  }

  /** Streams the whole list as CSV, without a time limit. */
  async exportStream(
    query: Query<'exportSuppressions'> = {},
    { signal }: CallOptions = {},
  ): Promise<ReadableStream<Uint8Array>> {
    const { body } = await this.transport.stream('exportSuppressions', { query, signal });
    return body ?? new Blob().stream();
  }

  /**
   * @param list CSV: a header line with `address`, then one address for each line; or the list of another
   *   service, as CSV or JSON. The client sends a stream while it reads it, once and without a time limit
   */
  async import(
    list: string | ReadableStream<Uint8Array>,
    query: Query<'importSuppressions'> = {},
    { signal }: CallOptions = {},
  ): Promise<SuppressionImport> {
    const call = { query, body: list, signal };
    if (typeof list === 'string') return this.transport.json('importSuppressions', call);
    const response = await this.transport.stream('importSuppressions', call);
    return (await response.json()) as SuppressionImport;
  }
}

class Templates extends Resource {
  create(template: Body<'createTemplate'>) {
    return this.call('createTemplate', {}, template);
  }

  list(query: Query<'listTemplates'> = {}) {
    return this.pages('listTemplates', { query });
  }

  /** @param id id or alias, as in the other methods */
  get(id: string) {
    return this.call('getTemplate', { id });
  }

  update(id: string, change: Body<'updateTemplate'>, options?: ChangeOptions) {
    return this.call('updateTemplate', { id }, change, conditionOf(options));
  }

  delete(id: string, options?: ChangeOptions) {
    return this.call('deleteTemplate', { id }, undefined, conditionOf(options));
  }

  versions(id: string) {
    return this.call('listTemplateVersions', { id });
  }

  getVersion(id: string, version: number) {
    return this.call('getTemplateVersion', { id, version });
  }

  publish(id: string, which: Body<'publishTemplate'> = {}, options?: ChangeOptions) {
    return this.call('publishTemplate', { id }, which, conditionOf(options));
  }

  /** Translates Handlebars or the syntax of Resend. Stores nothing. */
  translate(template: Body<'translateTemplate'>) {
    return this.call('translateTemplate', {}, template);
  }

  preview(id: string, preview: Body<'previewTemplate'> = {}) {
    return this.call('previewTemplate', { id }, preview);
  }
}

class ApiKeys extends Resource {
  /** Returns the key that this client uses. */
  current() {
    return this.call('getCurrentApiKey');
  }

  /** Like `rotate`, returns the key itself. Other methods never do. */
  create(key: Body<'createApiKey'>) {
    return this.call('createApiKey', {}, key);
  }

  list(query: Query<'listApiKeys'> = {}) {
    return this.pages('listApiKeys', { query });
  }

  update(id: string, change: Body<'updateApiKey'>, options?: ChangeOptions) {
    return this.call('updateApiKey', { id }, change, conditionOf(options));
  }

  revoke(id: string, options?: ChangeOptions) {
    return this.call('revokeApiKey', { id }, undefined, conditionOf(options));
  }

  /** Creates a new key with the same rights. `rotation` sets when the old one ends. */
  rotate(id: string, rotation: Body<'rotateApiKey'> = {}) {
    return this.call('rotateApiKey', { id }, rotation);
  }
}
