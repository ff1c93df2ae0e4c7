/**
 * The part of the ledger about promises of requests beyond delivery: no mail is sent after a cancel or before its time,
 * batches are accepted as a whole, templates make the requested content, and the event stream has every event once.
 */
import { groupBy } from './group-by.ts';
import type { Evidence, Finding, FindingKind } from './ledger-types.ts';

const finding = (kind: FindingKind, what: string): Finding => ({ kind, what });

export function compareRequests(evidence: Evidence): Finding[] {
  return [
    ...canceledIsNotSent(evidence),
    ...nothingIsEarly(evidence),
    ...batchesAreWhole(evidence),
    ...contentsAreRight(evidence),
    ...streamsAreComplete(evidence),
  ];
}

/** Checks canceled recipients. A server may receive a message after the cancel when its reply was lost before. */
function canceledIsNotSent({ cancels, copies, recipients, events }: Evidence): Finding[] {
  const byRecipient = groupBy(copies, ({ emailId, address }) => `${emailId} ${address}`);
  const stored = new Map(recipients.map((one) => [`${one.emailId} ${one.address}`, one]));
  const inDoubt = new Set(
    events.flatMap((one) => (one.isInDoubt ? [`${one.emailId} ${one.position}`] : [])),
  );
  return cancels.flatMap(({ emailId, addresses, answeredMs }) =>
    addresses.flatMap((address) => {
      const who = `${emailId} to ${address}`;
      const recipient = stored.get(`${emailId} ${address}`);
      const hasEndedSo = recipient === undefined || recipient.status === 'canceled';
      const mayArrive = inDoubt.has(`${emailId} ${recipient?.position}`);
      const later = (byRecipient.get(`${emailId} ${address}`) ?? []).filter(
        ({ atMs }) => atMs > answeredMs,
      );
      return [
        ...(hasEndedSo ? [] : [finding('wrong_ending', `${who} was canceled`)]),
        ...(later.length > 0 && !mayArrive ? [finding('sent_after_cancel', who)] : []),
      ];
    }),
  );
}

/** Slack between a change of the clock and its record, and between two readings of one clock. */
const CLOCK_SLACK_MS = 2_000;

function nothingIsEarly({ copies, emails, requests, skews }: Evidence): Finding[] {
  const byIndex = new Map(requests.map((request) => [request.index, request]));
  const dueMs = new Map(emails.map(({ id, index }) => [id, byIndex.get(index)?.scheduledAtMs]));
  return copies.flatMap(({ emailId, address, atMs }) => {
    const since = skews.filter(({ fromMs }) => fromMs <= atMs + CLOCK_SLACK_MS);
    const skewMs = Math.max(0, ...since.map((one) => one.skewMs));
    const isEarly = atMs + skewMs + CLOCK_SLACK_MS < (dueMs.get(emailId) ?? 0);
    return isEarly ? [finding('sent_before_its_time', `${emailId} to ${address}`)] : [];
  });
}

function batchesAreWhole({ requests, emails }: Evidence): Finding[] {
  const stored = new Set(emails.map(({ index }) => index));
  const batches = groupBy(
    requests.filter(({ batch }) => batch !== null),
    ({ batch }) => batch,
  );
  return [...batches].flatMap(([batch, items]) => {
    const count = items.filter(({ index }) => stored.has(index)).length;
    if (count === 0 || count === items.length) return [];
    return [finding('batch_in_part', `${batch}: ${count} of ${items.length} are stored`)];
  });
}

function contentsAreRight({ emails }: Evidence): Finding[] {
  return emails
    .filter(({ index, subject }) => subject !== `Email ${index}`)
    .map(({ id, index, subject }) => finding('wrong_content', `${id}: ${index} is ${subject}`));
}

function streamsAreComplete({ streams }: Evidence): Finding[] {
  return streams.flatMap(({ reader, expected, received, unexpectedResponses }) => {
    const got = new Set<string>();
    const again = received.filter((id) => got.size === got.add(id).size);
    return [
      ...expected
        .filter((id) => !got.has(id))
        .map((id) => finding('event_not_streamed', `${reader}: ${id}`)),
      ...again.map((id) => finding('event_streamed_twice', `${reader}: ${id}`)),
      ...unexpectedResponses.map((answer) =>
        finding('unexpected_response', `${reader}: ${answer}`),
      ),
    ];
  });
}
