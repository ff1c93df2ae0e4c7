/**
 * Counts the copies that a message must have, may have and must not have. A delivered recipient must have one. Each
 * attempt that is recorded as in doubt may add one. A disturbance of a copy's node before the next copy may add one,
 * because the reply to the first may never have been stored.
 */
import { groupBy } from './group-by.ts';
import type { Copy, Disturbance, Evidence, Finding } from './ledger-types.ts';

export type DuplicateCount = {
  /** Copies beyond the one of a delivered recipient. */
  extra: number;
  /** Duplicates that attempts in doubt explain, and those that disturbances explain. */
  inDoubt: number;
  atDisturbances: number;
};

/** Slack, because a signal, a log line and a received dot have their times from different processes. */
const SLACK_MS = 1_000;

type JudgedRecipient = { who: string; extra: number; inDoubt: number; atDisturbances: number };

export function findUnexplainedCopies(evidence: Evidence): Finding[] {
  return judgedRecipients(evidence)
    .filter(({ extra, inDoubt, atDisturbances }) => extra > inDoubt + atDisturbances)
    .map(({ who, extra, inDoubt, atDisturbances }) => ({
      kind: 'unexplained_duplicate',
      what: `${who}: ${extra} too many, ${inDoubt} in doubt, ${atDisturbances} at disturbances`,
    }));
}

export function countDuplicates(evidence: Evidence): DuplicateCount {
  const sum = { extra: 0, inDoubt: 0, atDisturbances: 0 };
  for (const { extra, inDoubt, atDisturbances } of judgedRecipients(evidence)) {
    sum.extra += extra;
    sum.inDoubt += inDoubt;
    sum.atDisturbances += atDisturbances;
  }
  return sum;
}

function judgedRecipients({
  recipients,
  copies,
  events,
  disturbances,
}: Evidence): JudgedRecipient[] {
  const byRecipient = groupBy(copies, ({ emailId, address }) => `${emailId} ${address}`);
  const doubts = groupBy(
    events.filter(({ isInDoubt }) => isInDoubt),
    ({ emailId, position }) => `${emailId} ${position}`,
  );
  const byNode = groupBy(disturbances, ({ node }) => node);
  return recipients.flatMap(({ emailId, position, address, status }) => {
    const who = `${emailId} to ${address}`;
    const own = (byRecipient.get(`${emailId} ${address}`) ?? []).toSorted(
      (a, b) => a.atMs - b.atMs,
    );
    const due = status === 'delivered' ? 1 : 0;
    const extra = Math.max(0, own.length - due);
    if (extra === 0) return [];
    const inDoubt = Math.min(extra, doubts.get(`${emailId} ${position}`)?.length ?? 0);
    // The last copy of a delivered recipient is the one whose reply was stored.
    const disturbed = own
      .slice(0, own.length - due)
      .filter((copy, at) => wasDisturbed(copy, own[at + 1], byNode)).length;
    return [{ who, extra, inDoubt, atDisturbances: Math.min(extra - inDoubt, disturbed) }];
  });
}

/** Returns whether the sending node was disturbed between the dot of this copy and the next copy. */
function wasDisturbed(
  { node, atMs }: Copy,
  next: Copy | undefined,
  disturbances: ReadonlyMap<string, readonly Disturbance[]>,
): boolean {
  const untilMs = next?.atMs ?? Infinity;
  return (disturbances.get(node) ?? []).some(
    ({ fromMs, toMs }) => toMs >= atMs - SLACK_MS && fromMs <= untilMs + SLACK_MS,
  );
}
