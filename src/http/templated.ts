/**
 * From the body of a request to a draft: the content of an email that names a template is rendered
 * first, as the template is now. A request that is repeated with its Idempotency-Key gets its first
 * answer, also when the template has changed so that it would be refused (`findReplay`).
 */
import type { z } from 'zod';
import { isRefusal, type Refusal, refuseFields } from '../core/refusals.ts';
import type { Caller } from '../core/scope.ts';
import { type AcceptOutcome, findReplay } from '../sending/accept.ts';
import { type DraftRules, type EmailDraft, makeDraft } from '../sending/draft.ts';
import { recipientUrls } from '../sending/recipient-urls.ts';
import type { emailCreation } from './schemas/new-emails.ts';
import type { HttpServices } from './services.ts';

/** What the caller's emails may be. */
export function rulesFor(services: HttpServices, caller: Caller): DraftRules {
  const { config, localUrl } = services;
  const { allowPrivateNetworks, inboundPort } = config;
  return {
    environment: caller.environment,
    allowPrivateNetworks,
    ...recipientUrls(config, { environment: caller.environment, localUrl }),
    takesMail: inboundPort !== null,
  };
}

export async function draftFrom(
  { templates }: HttpServices,
  caller: Caller,
  { body, rules }: { body: z.output<typeof emailCreation>; rules: DraftRules },
): Promise<EmailDraft | Refusal> {
  const { template, subject, ...rest } = body;
  // The schema lets nobody leave out both.
  if (template == null) return makeDraft({ ...rest, subject: subject ?? '' }, rules);
  const { id, variables = {} } = template;
  const rendered = await templates.render(caller, { id, variables });
  if (isRefusal(rendered)) return rendered;
  const draft = makeDraft({ ...rest, ...rendered }, rules);
  return isRefusal(draft) ? ofTemplate(draft) : draft;
}

/** What is wrong with rendered content is named by the field that it came from. */
function ofTemplate(refusal: Refusal): Refusal {
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
 * The first answer to a request that is refused now because of a template; null: it had none.
 * @param usesTemplate other refusals would have been the same the first time
 */
export async function replayOf(
  { db }: HttpServices,
  caller: Caller,
  {
    usesTemplate,
    idempotency,
  }: { usesTemplate: boolean; idempotency: { key: string; fingerprint: string } | null },
): Promise<AcceptOutcome | null> {
  return usesTemplate && idempotency !== null ? findReplay(db, caller, idempotency) : null;
}
