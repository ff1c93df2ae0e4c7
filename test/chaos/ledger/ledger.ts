/**
 * The ledger: compares accepted requests with stored mail, and both with the mail that arrived. It is pure, and it
 * shares no rule with the service. It returns one finding for each difference, and none for a correct run.
 *
 * The rules are those of ARCHITECTURE.md ("Invariants"). Nothing is lost and nothing is unexpected. Each recipient ends
 * once, by legal steps. Each change has one event, and each event one webhook per endpoint. A second copy exists only
 * where a worker was between the dot and the commit of its reply.
 */
import { groupBy } from './group-by.ts';
import { findUnexplainedCopies } from './duplicates.ts';
import { compareAttacks } from './ledger-attacker.ts';
import { compareRequests } from './ledger-requests.ts';
import type { Evidence, Finding, FindingKind, StoredEvent, WebhookSet } from './ledger-types.ts';

export function compare(evidence: Evidence): Finding[] {
  return [
    ...requestsAreKept(evidence),
    ...emailsAreAskedFor(evidence),
    ...recipientsEnd(evidence),
    ...eventsMatchStatuses(evidence),
    ...countsMatchEvents(evidence),
    ...copiesAreExpected(evidence),
    ...findUnexplainedCopies(evidence),
    ...nothingIsSentAfterFreeze(evidence),
    ...nothingStoppedIsSent(evidence),
    ...compareRequests(evidence),
    ...compareAttacks(evidence),
    ...evidence.webhooks.flatMap(webhooksAreComplete),
    ...nothingIsLeft(evidence),
  ];
}

const finding = (kind: FindingKind, what: string): Finding => ({ kind, what });

function requestsAreKept(evidence: Evidence): Finding[] {
  const { requests, emails, acceptedWithRevokedKey, acceptedFromRemovedDomain } = evidence;
  const stored = new Set(emails.map(({ id }) => id));
  const byIndex = groupBy(emails, ({ index }) => index);
  return [
    ...requests.flatMap((request) => {
      const { index, ids, outcome } = request;
      const ours = new Set([...ids, ...(byIndex.get(index) ?? []).map(({ id }) => id)]);
      return [
        ...ids.filter((id) => !stored.has(id)).map((id) => finding('lost', id)),
        ...(ours.size > 1
          ? [finding('two_emails_for_one_request', `${index}: ${[...ours].join(', ')}`)]
          : []),
        ...(outcome === 'refused' && ours.size > 0
          ? [finding('stored_though_refused', `${index}: ${[...ours].join(', ')}`)]
          : []),
        ...request.unexpectedResponses.map((answer) =>
          finding('unexpected_response', `${index}: ${answer}`),
        ),
      ];
    }),
    ...acceptedWithRevokedKey.map((index) => finding('accepted_with_revoked_key', String(index))),
    ...acceptedFromRemovedDomain.map((index) =>
      finding('accepted_from_removed_domain', String(index)),
    ),
  ];
}

function emailsAreAskedFor({ requests, emails, recipients }: Evidence): Finding[] {
  const asked = new Map(requests.map((request) => [request.index, request]));
  const stored = groupBy(recipients, ({ emailId }) => emailId);
  return emails.flatMap(({ id, index }) => {
    const wanted = [...new Set(asked.get(index)?.addresses)].toSorted();
    const has = (stored.get(id) ?? []).map(({ address }) => address).toSorted();
    return wanted.join() === has.join()
      ? []
      : [finding('lost', `${id}: to ${has.join(', ') || 'nobody'}, not ${wanted.join(', ')}`)];
  });
}

const ENDINGS = ['delivered', 'bounced', 'failed', 'suppressed', 'sent', 'canceled'];

/** Maximum attempts of a recipient that may end in doubt. The last one ends the recipient as failed. */
const DOUBTS_MAX = 3;

function recipientsEnd(evidence: Evidence): Finding[] {
  const { emails, recipients, events, copies, mayEndAs, requests } = evidence;
  const doubts = groupBy(
    events.filter(({ isInDoubt }) => isInDoubt),
    ({ emailId, position }) => `${emailId} ${position}`,
  );
  const cancelable = new Set(requests.flatMap((one) => (one.isCanceled ? one.ids : [])));
  const environments = new Map(emails.map(({ id, environment }) => [id, environment]));
  const arrived = new Set(copies.map(({ emailId, address }) => `${emailId} ${address}`));
  const open = emails.filter(({ openCount }) => openCount !== 0);
  return [
    ...open.map(({ id, openCount }) => finding('unfinished', `${id} counts ${openCount} open`)),
    ...recipients.flatMap(({ emailId, position, address, status }) => {
      const who = `${emailId} to ${address} is ${status}`;
      if (!ENDINGS.includes(status)) return [finding('unfinished', who)];
      const isLive = environments.get(emailId) === 'live';
      const isMissing = status === 'delivered' && isLive && !arrived.has(`${emailId} ${address}`);
      const allowed = mayEndAs(address);
      const mayBeCanceled = status === 'canceled' && cancelable.has(emailId);
      const ofDoubts = doubts.get(`${emailId} ${position}`)?.length ?? 0;
      const mayFail = status === 'failed' && ofDoubts >= DOUBTS_MAX;
      return [
        ...(isMissing ? [finding('never_arrived', who)] : []),
        ...(allowed && !allowed.includes(status) && !mayBeCanceled && !mayFail
          ? [finding('wrong_ending', who)]
          : []),
      ];
    }),
  ];
}

const STATUS_OF_EVENT: Readonly<Record<string, string>> = {
  'email.queued': 'queued',
  'email.delivery_delayed': 'deferred',
  'email.delivered': 'delivered',
  'email.sent': 'sent',
  'email.bounced': 'bounced',
  'email.failed': 'failed',
  'email.suppressed': 'suppressed',
  'email.canceled': 'canceled',
};

function eventsMatchStatuses({ emails, recipients, events }: Evidence): Finding[] {
  const byEmail = groupBy(events, ({ emailId }) => emailId);
  const ofRecipient = groupBy(events, ({ emailId, position }) => `${emailId} ${position}`);
  const gaps = emails.flatMap(({ id, eventCount }) => {
    const seqs = (byEmail.get(id) ?? []).map(({ seq }) => seq).toSorted((a, b) => a - b);
    const isWhole = seqs.length === eventCount && seqs.every((seq, at) => seq === at + 1);
    const what = `${id} has the events ${seqs.join(' ')} and counts ${eventCount}`;
    return isWhole ? [] : [finding('events_with_gaps', what)];
  });
  const histories = recipients.flatMap(({ emailId, position, address, status, attempts }) => {
    const cancels = (byEmail.get(emailId) ?? []).filter(
      ({ canceled }) => canceled?.includes(address) === true,
    );
    const own = [...(ofRecipient.get(`${emailId} ${position}`) ?? []), ...cancels];
    const attempted = own.filter(({ hasAttempt }) => hasAttempt).length;
    const who = `${emailId} recipient ${position}`;
    return [
      ...historyOf(who, own, status),
      ...(attempted === attempts
        ? []
        : [finding('attempts_and_events_differ', `${who}: ${attempts} and ${attempted}`)]),
    ];
  });
  return [...gaps, ...histories];
}

/** Checks the history of a recipient: queued, any number of deferrals, one final status, and no event after it. */
function historyOf(who: string, events: readonly StoredEvent[], status: string): Finding[] {
  const steps = events
    .toSorted((a, b) => a.seq - b.seq)
    .map(({ type }) => STATUS_OF_EVENT[type] ?? type);
  const isLegal = steps.every(
    (step, at) =>
      (step === 'deferred' || ENDINGS.includes(step)) && !ENDINGS.includes(steps[at - 1]!),
  );
  const history = ['queued', ...steps].join(' → ');
  if (!isLegal) return [finding('illegal_transition', `${who}: ${history}`)];
  const last = steps.at(-1) ?? 'queued';
  if (last === status) return [];
  return [finding('status_and_events_differ', `${who} is ${status} after ${history}`)];
}

/** Compares the counters with the stored emails, recipients and changes. */
function countsMatchEvents({ emails, recipients, events, counts }: Evidence): Finding[] {
  const changes = groupBy(
    events.filter(({ position }) => position !== null),
    ({ type }) => STATUS_OF_EVENT[type] ?? type,
  );
  const canceled = events.reduce((sum, event) => sum + (event.canceled?.length ?? 0), 0);
  const stored: Record<string, number> = {
    emails: emails.length,
    recipients: recipients.length,
    deferred: changes.get('deferred')?.length ?? 0,
    ...Object.fromEntries(ENDINGS.map((status) => [status, changes.get(status)?.length ?? 0])),
    canceled,
  };
  return Object.entries(stored)
    .filter(([name, count]) => (counts[name] ?? 0) !== count)
    .map(([name, count]) =>
      finding('counts_differ', `${counts[name] ?? 0} ${name} counted of ${count}`),
    );
}

function copiesAreExpected(evidence: Evidence): Finding[] {
  const { emails, requests, recipients, copies, suppressed, needsVerifiedTls, testLookups } =
    evidence;
  const stored = new Map(emails.map((email) => [email.id, email]));
  const known = new Set(recipients.map(({ emailId, address }) => `${emailId} ${address}`));
  const begun = new Map(requests.map(({ index, begunMs }) => [index, begunMs]));
  const since = new Map(suppressed.map(({ address, sinceMs }) => [address, sinceMs]));
  return [
    ...copies.flatMap(({ emailId, address, isTlsVerified }) => {
      const who = `${emailId} to ${address}`;
      const email = stored.get(emailId);
      if (!email || !known.has(`${emailId} ${address}`)) return [finding('unexpected_copy', who)];
      if (email.environment === 'test') return [finding('copy_of_test_mail', who)];
      const isTooLate = (begun.get(email.index) ?? 0) > (since.get(address) ?? Infinity);
      return [
        ...(isTooLate ? [finding('sent_to_suppressed', who)] : []),
        ...(needsVerifiedTls(address) && !isTlsVerified
          ? [finding('sent_without_verified_tls', who)]
          : []),
      ];
    }),
    ...testLookups.map((name) => finding('test_mail_in_dns', name)),
  ];
}

/**
 * Checks that a frozen worker sends nothing on its old sessions after it resumes, because other workers have claimed
 * its mail. Mail that arrives earlier was already in the network: a slow receiver needs 15 s to read the buffers.
 */
function nothingIsSentAfterFreeze({ copies, freezes }: Evidence): Finding[] {
  return freezes.flatMap(({ node, fromMs, toMs }) =>
    copies
      .filter((copy) => copy.node === node && copy.sessionBegunMs < fromMs)
      .filter(({ atMs }) => atMs > toMs)
      .map(({ emailId, address, atMs }) =>
        finding(
          'sent_after_freeze',
          `${emailId} to ${address}, ${atMs - toMs} ms after it was woken`,
        ),
      ),
  );
}

/**
 * Checks that no message was sent to a recipient whose address was suppressed or whose domain was removed while it
 * waited.
 */
function nothingStoppedIsSent({ copies, stopped }: Evidence): Finding[] {
  const since = new Map(stopped.map((one) => [`${one.emailId} ${one.address}`, one.sinceMs]));
  return copies
    .filter(({ emailId, address, atMs }) => atMs > (since.get(`${emailId} ${address}`) ?? Infinity))
    .map(({ emailId, address }) => finding('sent_though_stopped', `${emailId} to ${address}`));
}

function webhooksAreComplete({ endpoint, expected, received }: WebhookSet): Finding[] {
  const wanted = new Set(expected);
  return [
    ...expected
      .filter((id) => !received.has(id))
      .map((id) => finding('webhook_missing', `${endpoint}: ${id}`)),
    ...[...received].flatMap(([id, { bodies, isVerified }]) => [
      ...(wanted.has(id) ? [] : [finding('webhook_unexpected', `${endpoint}: ${id}`)]),
      ...(bodies.size > 1 ? [finding('webhook_changed', `${endpoint}: ${id}`)] : []),
      ...(isVerified ? [] : [finding('webhook_not_verified', `${endpoint}: ${id}`)]),
    ]),
  ];
}

function nothingIsLeft({ left }: Evidence): Finding[] {
  const { queue, webhookQueue, nodes, workers } = left;
  return [
    ...(queue > 0 ? [finding('left_over', `${queue} rows in the queue`)] : []),
    ...(webhookQueue > 0 ? [finding('left_over', `${webhookQueue} webhooks to send`)] : []),
    ...(nodes === workers ? [] : [finding('left_over', `${nodes} leases of ${workers} workers`)]),
  ];
}
