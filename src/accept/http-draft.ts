/**
 * Turns the body of a request into a draft. Renders the template that an email names, and downloads the attachments
 * that it names by URL. Both use the template and the files at the time of the request.
 *
 * A repeated request with the same Idempotency-Key gets its first response, even if the template or the files have
 * changed since and would now be refused (`findRepetitionOfRequest`).
 */
import type { FastifyRequest } from 'fastify';
import type { z } from 'zod';
import { isRefusal, Overloaded, type Refusal, refuseFields } from '../core/refusals.ts';
import type { Caller } from '../core/scope.ts';
import { type AcceptResult, findRepetition } from './accept-results.ts';
import type { NamedAttachment, RequestDownloads } from './content/attachment-urls.ts';
import { type DraftInput, type DraftRules, type EmailDraft, parseDraft } from './draft.ts';
import {
  refuseOtherDomain,
  type SendingRefusal,
  unverifiedDomainRefusal,
} from './accept-refusals.ts';
import { recipientUrls } from './content/recipient-urls.ts';
import type { RenderedTemplate } from '../templates/rendering.ts';
import type { TemplateService } from '../templates/templates.ts';
import { RequestWork } from '../templates/work.ts';
import { isTracing, readTraceparent } from '../lib/tracing/spans.ts';
import { domainOf } from '../mail/address.ts';
import { peekLimit } from '../accounts/limits/limit-store.ts';
import { type Limit, limitRefusal } from '../core/limits.ts';
import type { Queryable } from '../database/database.ts';
import { isVerifiedDomain } from '../domains/domain-store.ts';
import { callerOf } from '../http/access.ts';
import { BODY_MAX_BYTES } from '../http/errors.ts';
import type { emailCreation } from './schemas.ts';
import type { HttpServices } from '../http/services.ts';

function rulesFor(services: HttpServices, caller: Caller): DraftRules {
  const { config, localUrl } = services;
  const { allowPrivateNetworks, inboundPort } = config;
  return {
    environment: caller.environment,
    allowPrivateNetworks,
    ...recipientUrls(config, { environment: caller.environment, localUrl }),
    receivesMail: inboundPort !== null,
  };
}

export type DraftMaker = (body: z.output<typeof emailCreation>) => Promise<EmailDraft | Refusal>;

/**
 * Returns the function that makes the drafts of one request. They share downloads and the rendering budget.
 * @param options.numbersAsText see templates/variables.ts
 */
export function createDraftMaker(
  services: HttpServices,
  request: FastifyRequest,
  options: { numbersAsText?: boolean } = {},
): DraftMaker {
  const caller = callerOf(request);
  const resources = {
    take: (bytes: number) => request.bodyAccount?.take(bytes) === true,
    gone: () => request.bodyAccount?.closedSignal() ?? AbortSignal.abort(),
  };
  const { projectId } = caller;
  let downloads: RequestDownloads | null = null;
  const context = {
    rules: rulesFor(services, caller),
    downloads: () =>
      (downloads ??= services.attachmentUrls.forRequest({ projectId, ...resources })),
  };
  const rendering = new TemplateRendering(services, caller, resources);
  const traced = withTraceOf(request);
  return async ({ template, subject, ...rest }) => {
    if (template == null) {
      return traced(await draftWithDownloads({ ...rest, subject: subject ?? '' }, context));
    }
    const own = subject ? { subject } : {};
    // Checks the other fields first, so that an invalid email is not rendered.
    const blank = parseDraft({ ...rest, ...PLACEHOLDERS, ...own }, context.rules);
    if (isRefusal(blank)) return blank;
    const from = domainOf(blank.email.from.address);
    const { id, variables } = template;
    const wanted = { id, variables: variables ?? {}, withSubject: !subject, ...options };
    const rendered = await rendering.contentOf(wanted, from);
    if (isRefusal(rendered)) return rendered;
    const { templateId, ...content } = rendered;
    const draft = await draftWithDownloads({ ...rest, ...content, ...own }, context);
    if (isRefusal(draft)) return toTemplateRefusal(draft);
    return traced({ ...draft, email: { ...draft.email, templateId } });
  };
}

/** Returns the function that adds the trace of the request to its drafts, while an SDK records traces. */
function withTraceOf({ headers }: FastifyRequest) {
  const traceparent = isTracing() ? readTraceparent(headers['traceparent']) : null;
  return <Draft extends EmailDraft | Refusal>(draft: Draft): Draft | EmailDraft =>
    traceparent === null || isRefusal(draft)
      ? draft
      : { ...draft, email: { ...draft.email, traceparent } };
}

/** Placeholders for the check before rendering. */
const PLACEHOLDERS = { subject: '-', html: '-', text: '-', attachments: null };

/** Limit on the text that templates may render for one request, in UTF-8. */
const RENDERED_BYTES_MAX = BODY_MAX_BYTES;

/** Renders the templates of one request. Rendered text counts towards the same memory as the request's body. */
class TemplateRendering {
  readonly #services: HttpServices;
  readonly #caller: Caller;
  readonly #refusals = new Map<string, Promise<Refusal | null>>();
  readonly #resources: { take: (bytes: number) => boolean; gone: () => AbortSignal };
  #work: RequestWork | null = null;
  #renderedBytes = 0;

  constructor(
    services: HttpServices,
    caller: Caller,
    resources: { take: (bytes: number) => boolean; gone: () => AbortSignal },
  ) {
    this.#services = services;
    this.#caller = caller;
    this.#resources = resources;
  }

  /** @throws Overloaded when other requests use the memory, or the client has disconnected */
  async contentOf(
    template: Parameters<TemplateService['render']>[1],
    domain: string,
  ): Promise<(RenderedTemplate & { templateId: string }) | Refusal> {
    this.#work ??= new RequestWork();
    const refuse = () => this.#refusalFor(domain);
    const request = { work: this.#work, gone: this.#resources.gone(), refuse };
    const rendered = await this.#services.templates.render(this.#caller, template, request);
    if (isRefusal(rendered)) return rendered;
    const { html, text } = rendered;
    const bytes = Buffer.byteLength(html ?? '') + Buffer.byteLength(text ?? '');
    this.#renderedBytes += bytes;
    if (this.#renderedBytes > RENDERED_BYTES_MAX) return RENDERED_TOO_LARGE;
    if (this.#resources.take(bytes)) return rendered;
    throw new Overloaded('too many large requests are in progress');
  }

  #refusalFor(domain: string): Promise<Refusal | null> {
    const { db, config } = this.#services;
    const known = this.#refusals.get(domain);
    const refusal =
      known ?? refuseEarly(db, this.#caller, { domain, configuredLimit: config.limits.sending });
    this.#refusals.set(domain, refusal);
    return refusal;
  }
}

/**
 * Refuses an email before its template is rendered: by the key's domain, an unverified domain, or a used-up sending
 * limit. Accepting checks all three again. This check saves rendering for emails that are refused anyway.
 */
async function refuseEarly(
  db: Queryable,
  caller: Caller,
  { domain, configuredLimit }: { domain: string; configuredLimit: Limit },
): Promise<SendingRefusal | null> {
  const refusal = refuseOtherDomain(caller, domain);
  if (refusal !== null) return refusal;
  const [isVerified, limit] = await Promise.all([
    isVerifiedDomain(db, { ...caller, name: domain }),
    peekLimit(db, { ...caller, category: 'sending' }, configuredLimit),
  ]);
  if (!isVerified) return unverifiedDomainRefusal(domain);
  return limit.remaining === 0 ? limitRefusal('sending', limit) : null;
}

const RENDERED_TOO_LARGE: Refusal = refuseFields([
  {
    field: 'template',
    message:
      'the templates of this request make more than 45 MB of content; send fewer emails in one request',
  },
]);

type InputWithUrls = Omit<DraftInput, 'attachments'> & {
  attachments?: readonly NamedAttachment[] | null | undefined;
};

/** Checks the other fields first, so that an invalid email downloads nothing. */
async function draftWithDownloads(
  input: InputWithUrls,
  { rules, downloads }: { rules: DraftRules; downloads: () => RequestDownloads },
): Promise<EmailDraft | Refusal> {
  const { attachments } = input;
  if (!attachments?.some(hasUrl)) return parseDraft(input, rules);
  const withEmpty = attachments.map((one) => (hasUrl(one) ? { ...one, content: '' } : one));
  const draft = parseDraft({ ...input, attachments: withEmpty }, rules);
  if (isRefusal(draft)) return draft;
  const downloaded = await downloads().download(attachments);
  return isRefusal(downloaded)
    ? downloaded
    : parseDraft({ ...input, attachments: downloaded }, rules);
}

function hasUrl(attachment: { path?: unknown }): boolean {
  return attachment.path != null;
}

/** Reports problems of rendered content under `template`, the field that the client sent. */
function toTemplateRefusal(refusal: Refusal): Refusal {
  if (refusal.details === undefined) return refusal;
  return refuseFields(
    refusal.details.map(({ field, message }) =>
      ['subject', 'html', 'text'].includes(field)
        ? { field: 'template', message: `its ${field} ${message}` }
        : { field, message },
    ),
  );
}

/**
 * Returns the first response to a request that a changed template or file would now refuse, or null when there was
 * none.
 * @param emails the request's emails as sent. Emails without template and URL need no look-up: a repetition is
 *   refused for the same reason as the first request.
 */
export async function findRepetitionOfRequest(
  { db }: HttpServices,
  request: FastifyRequest,
  {
    emails,
    idempotency,
  }: {
    emails: readonly unknown[];
    idempotency: { key: string; fingerprint: string } | null;
  },
): Promise<AcceptResult | null> {
  if (idempotency === null || !emails.some(usesTemplateOrUrl)) return null;
  return findRepetition(db, callerOf(request), idempotency);
}

/**
 * Returns whether an email uses a template or a URL, so that the same request may be refused later. The email need
 * not be valid.
 */
function usesTemplateOrUrl(email: unknown): boolean {
  if (typeof email !== 'object' || email === null) return false;
  const { template, attachments } = email as { template?: unknown; attachments?: unknown };
  if (template != null) return true;
  return Array.isArray(attachments) && attachments.some((one) => one?.path != null);
}
