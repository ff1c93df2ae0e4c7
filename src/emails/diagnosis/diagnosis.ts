/**
 * Explains why an email is slow or missing. For each recipient: the last attempt in words with its dialogue, the
 * limit it waits for, the DNS findings, and the next step. For the sender: how receivers judge its records. Reads
 * only.
 *
 * The facts come from the queue, the timeline and the states of providers (diagnosis-store.ts). Sentences about a
 * reply are those of the recipient's `reason` (mail/replies/meanings.ts). DNS look-ups have a time limit
 * (net/dns/lookup-allowance.ts), and only recipients without the email get one. The reason why a provider is slowed or
 * suspended is hidden, because it can quote a reply to another project's mail.
 */
import {
  type AuthenticationFinding,
  type RouteFinding,
  unknownRoute,
} from '../../core/dns/dns-findings.ts';
import { domainOf, parseAddress } from '../../mail/address.ts';
import type { BoundedLookup, LookupAllowance } from '../../net/dns/lookup-allowance.ts';
import {
  countAhead,
  readRecipientStates,
  readSenderState,
  type RecipientState,
  type SenderState,
} from './diagnosis-store.ts';
import { type EmailDetail, type EmailRef, findEmail, type RecipientView } from '../email-store.ts';
import type { Database, Queryable } from '../../database/database.ts';
import {
  type StoredProviderState,
  readProviderStates,
} from '../../delivery/shaping/provider-state-store.ts';
import {
  explainWait,
  lastAttemptOf,
  describeNextStep,
  type Wait,
  describeEmail,
  describeLastAttempt,
} from './sentences.ts';

type DiagnosisOptions = {
  db: Queryable & Pick<Database, 'transaction'>;
  authenticate: (
    email: EmailRef,
    sender: Pick<SenderState, 'domainId' | 'dualSigned'>,
    ask: BoundedLookup,
  ) => Promise<AuthenticationFinding | null>;
  findRoute: (
    email: EmailRef,
    destination: string,
    tls: SenderState['tls'],
  ) => Promise<RouteFinding>;
  allowance: Pick<LookupAllowance, 'forRequest'>;
  /** Returns true while the database stores no outcomes, so that no message is sent to its end. */
  isSettlingStalled: () => boolean;
};

export type Diagnose = ReturnType<typeof createDiagnose>;

/** @returns the diagnosis in the API's format; null when the email does not exist for the caller */
export function createDiagnose(options: DiagnosisOptions) {
  const { db, allowance } = options;
  return async (ref: EmailRef) => {
    const read = await db.transaction((tx) => readSnapshot(tx, ref));
    if (read === null) return null;
    const { email, sender, states, providers } = read;
    const context = { ref, email, sender, providers, options };
    const ask = allowance.forRequest(ref);
    const routes = new Map<string, Promise<RouteFinding>>();
    const [recipients, authentication] = await Promise.all([
      Promise.all(
        email.recipients.map((recipient, index) =>
          diagnoseRecipient(recipient, states[index], { ...context, ask, routes }),
        ),
      ),
      options.authenticate(ref, sender, allowance.forRequest(ref)),
    ]);
    return {
      object: 'diagnosis' as const,
      id: email.id,
      status: email.status,
      summary: describeEmail(email),
      created_at: email.createdAt.toISOString(),
      scheduled_at: email.scheduledAt?.toISOString() ?? null,
      expires_at: sender.expiresAt.toISOString(),
      sender: {
        domain: domainOf(email.fromAddress),
        status: sender.domainStatus ?? ('removed' as const),
        authentication,
      },
      recipients,
    };
  };
}

/** Reads one snapshot, so that an attempt settled meanwhile is in all parts of the response or in none. */
async function readSnapshot(tx: Queryable, ref: EmailRef) {
  await tx.query('set transaction isolation level repeatable read, read only');
  const email = await findEmail(tx, ref, 0);
  const sender = email && (await readSenderState(tx, ref));
  if (!email || !sender) return null;
  const states = await readRecipientStates(tx, ref);
  return { email, sender, states, providers: await readProviderStates(tx) };
}

type Context = {
  ref: EmailRef;
  email: EmailDetail;
  sender: SenderState;
  providers: readonly StoredProviderState[];
  options: DiagnosisOptions;
  ask: BoundedLookup;
  routes: Map<string, Promise<RouteFinding>>;
};

async function diagnoseRecipient(
  recipient: RecipientView,
  state: RecipientState | undefined,
  context: Context,
) {
  const { address, kind, status, attempts, reason } = recipient;
  const [wait, route] = await Promise.all([
    state === undefined ? null : waitOf(recipient, state, context),
    needsRoute(recipient) ? routeOf(address, context) : null,
  ]);
  return {
    address,
    kind,
    status,
    attempts,
    what_happened: describeLastAttempt(recipient, state),
    last_attempt: state ? lastAttemptOf(recipient, state) : null,
    reason,
    held_by: wait && {
      limit: wait.limit,
      message: wait.message,
      until: wait.until?.toISOString() ?? null,
    },
    route,
    next_step: describeNextStep(recipient, wait, route),
  };
}

/** Skips recipients that DNS cannot affect any more. */
function needsRoute({ status }: RecipientView): boolean {
  return !['delivered', 'sent', 'complained', 'suppressed', 'canceled'].includes(status);
}

async function waitOf(
  recipient: RecipientView,
  state: RecipientState,
  { ref, sender, email, providers, options }: Context,
): Promise<Wait | null> {
  const { provider, dueAt } = state;
  if (provider === null || dueAt === null) return null;
  const found = providers.find((one) => one.provider === provider) ?? null;
  const isQueued = state.dueInMs <= 0 && !state.isWithWorker && !state.isOnHold;
  const ahead = isQueued ? await countAhead(options.db, { ...ref, provider, dueAt }) : 0;
  return explainWait({
    state: { ...state, provider, dueAt },
    recipient,
    sender,
    scheduledAt: email.scheduledAt,
    provider: found,
    ahead,
    isSettlingStalled: options.isSettlingStalled(),
  });
}

function routeOf(address: string, context: Context): Promise<RouteFinding> {
  const { ref, sender, options, ask, routes } = context;
  const parsed = parseAddress(address);
  const destination = parsed === null ? '' : domainOf(parsed);
  const known = routes.get(destination);
  if (known !== undefined) return known;
  const finding = ask(destination, () => options.findRoute(ref, destination, sender.tls)).then(
    (found) => (found.kind === 'known' ? found.value : unknownRoute(found.reason)),
  );
  routes.set(destination, finding);
  return finding;
}
