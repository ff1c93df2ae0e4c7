/**
 * Dry run: predicts what would happen to an email if it were sent now. Stores, counts and sends nothing.
 *
 * Takes the steps of accepting and delivery, with the same functions: draft.ts makes the draft, store/full-path.ts
 * reads facts and decides, delivery/message/message-builder.ts composes and signs, and each destination gets its
 * route. A dry run is therefore refused for the same reasons and with the same sentences as the email.
 *
 * DNS look-ups have a time limit (net/dns/lookup-allowance.ts). A result that DNS does not return in time is `unknown`.
 */
import {
  type AuthenticationFinding,
  type RouteFinding,
  unknownRoute,
} from '../../core/dns/dns-findings.ts';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { LimitState } from '../../core/limits.ts';
import type { Caller } from '../../core/scope.ts';
import { Turns } from '../../lib/turns.ts';
import { domainOf } from '../../mail/address.ts';
import type { HeaderField } from '../../mail/mime/header.ts';
import { trackedEvents } from '../../mail/links/tracking-link.ts';
import { lintEmail, type LintFinding } from '../../mail/html/lint-email.ts';
import { readHeader } from '../../mail/mime/reader.ts';
import type { BoundedLookup, LookupAllowance } from '../../net/dns/lookup-allowance.ts';
import type { Rehearsal } from '../store/full-path.ts';
import type { StoredMessage } from '../../delivery/message/message-store.ts';
import type { NewEmail, NewRecipient } from '../store/new-email.ts';
import { refuseOtherDomain, type SendingRefusal } from '../accept-refusals.ts';
import { acceptResultOf } from '../accept-results.ts';
import { newEmail, type NewEmailOptions, toStoredMessage } from '../email-of-draft.ts';
import type { EmailDraft } from '../draft.ts';

export type DryRunReport = {
  /** `replay`: the Idempotency-Key was used for the same email; `replayOf` has that email's id. */
  outcome: 'send' | 'schedule' | 'hold' | 'replay';
  replayOf: string | null;
  scheduledAt: Date | null;
  limit: LimitState;
  /** null for a repetition, which composes nothing. */
  message: { sizeBytes: number; headers: readonly HeaderField[] } | null;
  tracking: { opens: boolean; clicks: boolean } | null;
  sender: (AuthenticationFinding & { domain: string }) | null;
  recipients: readonly DryRunRecipient[];
  lint: readonly LintFinding[];
};

export type DryRunRecipient = Pick<NewRecipient, 'address' | 'kind'> & {
  suppression: Pick<Rehearsal['suppressions'][number], 'reason' | 'expires_at'> | null;
  route: RouteFinding | null;
};

export type DryRunResult =
  | { kind: 'described'; report: DryRunReport }
  | (SendingRefusal & { kind: 'refused' });

/** @param idempotency is compared with stored keys and not stored itself */
export type DryRun = (
  caller: Caller,
  draft: EmailDraft,
  idempotency: NewEmail['idempotency'],
) => Promise<DryRunResult>;

export type DryRunOptions = NewEmailOptions & {
  rehearse: (email: NewEmail) => Promise<Rehearsal>;
  /** Returns the bytes of the message for one recipient, in pieces. */
  compose: (
    message: StoredMessage,
    recipient: Pick<NewRecipient, 'address' | 'position'>,
  ) => Promise<{ parts: readonly Buffer[]; sizeBytes: number }>;
  /** Returns null when the domain has just been removed. */
  authenticate: (
    message: StoredMessage,
    ask: BoundedLookup,
  ) => Promise<AuthenticationFinding | null>;
  findRoute: (message: StoredMessage, destination: string) => Promise<RouteFinding>;
  allowance: Pick<LookupAllowance, 'forRequest'>;
};

export function createDryRun(options: DryRunOptions): DryRun {
  return async (caller, draft, idempotency) => {
    const refusal = refuseOtherDomain(caller, domainOf(draft.email.from.address));
    if (refusal !== null) return { kind: 'refused', ...refusal };
    const email = newEmail(caller, draft, { idempotency, options });
    const row = await options.rehearse(email);
    const outcome = acceptResultOf(row, email);
    if (outcome.kind === 'refused') return outcome;
    if (outcome.kind === 'repeated') return { kind: 'described', report: describeRepetition(row) };
    const { domainId } = row;
    if (domainId === null) throw new Error('an email without a domain is refused');
    const message = toStoredMessage(email, draft, { ...row, domainId });
    const report = await describeEmail(message, { caller, email, row, options });
    return { kind: 'described', report };
  };
}

function describeRepetition({ response, limit }: Rehearsal): DryRunReport {
  const { id } = JSON.parse(response ?? '{}') as { id?: string };
  return {
    outcome: 'replay',
    replayOf: id ?? null,
    scheduledAt: null,
    limit,
    message: null,
    tracking: null,
    sender: null,
    recipients: [],
    lint: [],
  };
}

/** Composing and reading 20 MB takes half a second, so each project runs one at a time. */
const turns = new Turns({ perOwner: 1 });

type DryRunContext = { caller: Caller; email: NewEmail; row: Rehearsal; options: DryRunOptions };

async function describeEmail(
  message: StoredMessage,
  context: DryRunContext,
): Promise<DryRunReport> {
  const { caller, row, options } = context;
  const [sender, recipients, composed] = await Promise.all([
    options.authenticate(message, options.allowance.forRequest(caller)),
    recipientsOf(message, context),
    turns.run(caller.projectId, () => composeAndLint(message, context)),
  ]);
  return {
    outcome: row.isScheduled ? 'schedule' : row.isPaused ? 'hold' : 'send',
    replayOf: null,
    scheduledAt: row.isScheduled ? row.startsAt : null,
    limit: row.limit,
    message: composed.message,
    tracking: trackedEvents(message.tracking),
    sender: sender && { domain: domainOf(message.from.address), ...sender },
    recipients,
    lint: composed.lint,
  };
}

async function composeAndLint(
  message: StoredMessage,
  context: DryRunContext,
): Promise<Pick<DryRunReport, 'message' | 'lint'>> {
  await nextTurn();
  const composed = await compose(message, context);
  await nextTurn();
  return { message: composed, lint: lintEmail(message) };
}

/**
 * Composes for the first recipient that is not suppressed. Other recipients' messages differ in the length of
 * unsubscribe links.
 */
async function compose(
  message: StoredMessage,
  { email, row, options }: DryRunContext,
): Promise<DryRunReport['message']> {
  const first = email.recipients.find(
    ({ position }) => !row.suppressedPositions.includes(position),
  );
  if (first === undefined) throw new Error('an email to nobody is refused');
  const { parts, sizeBytes } = await options.compose(message, first);
  const { fields } = readHeader(Buffer.concat(parts));
  return { sizeBytes, headers: fields.map(({ name, value }) => ({ name, value })) };
}

function recipientsOf(
  message: StoredMessage,
  { caller, email, row, options }: DryRunContext,
): Promise<DryRunRecipient[]> {
  const ask = options.allowance.forRequest(caller);
  const suppressions = new Map(row.suppressions.map((entry) => [entry.position, entry]));
  const routes = new Map<string, Promise<RouteFinding>>();
  const routeTo = (destination: string): Promise<RouteFinding> => {
    const known = routes.get(destination);
    if (known !== undefined) return known;
    const finding = ask(destination, () => options.findRoute(message, destination)).then((found) =>
      found.kind === 'known' ? found.value : unknownRoute(found.reason),
    );
    routes.set(destination, finding);
    return finding;
  };
  return Promise.all(
    email.recipients.map(async ({ address, kind, destination, position }) => {
      const entry = suppressions.get(position);
      if (entry === undefined) {
        return { address, kind, suppression: null, route: await routeTo(destination) };
      }
      const { reason, expires_at } = entry;
      return { address, kind, suppression: { reason, expires_at }, route: null };
    }),
  );
}

export function dryRunToWire(report: DryRunReport) {
  const { limit, message, sender } = report;
  return {
    object: 'dry_run' as const,
    outcome: report.outcome,
    replay_of: report.replayOf,
    scheduled_at: report.scheduledAt?.toISOString() ?? null,
    limit: {
      counts: limit.counts ?? ('emails' as const),
      limit: limit.limit,
      remaining: limit.remaining,
      reset: limit.resetS,
      window: limit.windowS,
    },
    tracking: report.tracking,
    message: message && { size: message.sizeBytes, headers: [...message.headers] },
    sender,
    recipients: report.recipients.map(({ address, kind, suppression, route }) => ({
      address,
      kind,
      outcome: suppression ? ('suppressed' as const) : ('attempt' as const),
      suppression,
      route,
    })),
    lint: [...report.lint],
  };
}
