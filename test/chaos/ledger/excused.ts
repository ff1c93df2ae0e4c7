/**
 * Excuses differences that a fail-over caused by losing the last commits (faults/lossy-failover.ts). It is pure: it
 * removes from the evidence what may be missing or repeated, and leaves the rest to the strict rules.
 *
 * An email may be gone with its copies and webhooks when its first 202 was requested or answered in these seconds. A
 * recipient that a worker had leased then may get further copies. Webhooks of lost events may have been sent, and a
 * cancel of these seconds may be undone. Recipients that were settled earlier or accepted later get no excuse, and
 * neither does a recipient that never ends.
 */
import { groupBy } from './group-by.ts';
import type { Copy, Evidence, Request } from './ledger-types.ts';

export type FirstAcceptance = { askedMs: number; answeredMs: number };

export type Rewind = {
  /** Time of the cluster's copy, and time of its swap into place. */
  fromMs: number;
  toMs: number;
  /** First 202 of each email, by id. */
  firstAccepted: ReadonlyMap<string, FirstAcceptance>;
  /** Ids of the webhooks that had been received before the copy, by endpoint. */
  receivedBefore: ReadonlyMap<string, ReadonlySet<string>>;
};

export type Rewound = {
  evidence: Evidence;
  /** Accepted emails that are missing. */
  lost: ReadonlySet<string>;
  /** Number of repeated copies of stored emails. */
  repeated: number;
};

/** Milliseconds from a final dot to the commit of its outcome on a busy machine. */
const SETTLED_WITHIN_MS = 5_000;
/** Milliseconds for which a worker may still send an email from its memory after the database has lost its row. */
const SENT_WITHIN_MS = 60_000;

export function excuse(evidence: Evidence, rewind: Rewind): Rewound {
  const { fromMs, toMs, firstAccepted, receivedBefore } = rewind;
  const stored = new Map(evidence.emails.map((email) => [email.id, email]));
  const mayBeGone = (id: string): boolean => {
    const result = firstAccepted.get(id);
    return (
      !stored.has(id) &&
      result !== undefined &&
      result.answeredMs >= fromMs &&
      result.askedMs <= toMs
    );
  };
  const lost = new Set(evidence.requests.flatMap(({ ids }) => ids).filter(mayBeGone));
  const requests = evidence.requests.map((request): Request => {
    return { ...request, ids: request.ids.filter((id) => !lost.has(id)) };
  });

  const begunMs = new Map(evidence.requests.map((request) => [request.index, request.begunMs]));
  const byRecipient = groupBy(evidence.copies, ({ emailId, address }) => `${emailId} ${address}`);
  let repeated = 0;
  const copies = [...byRecipient.values()].flatMap((own): Copy[] => {
    const inOrder = own.toSorted((a, b) => a.atMs - b.atMs);
    const first = inOrder[0]!;
    const email = stored.get(first.emailId);
    if (email === undefined) {
      const isInTime = first.atMs >= fromMs && inOrder.at(-1)!.atMs <= toMs + SENT_WITHIN_MS;
      const isKnown = firstAccepted.has(first.emailId);
      return isInTime && (!isKnown || lost.has(first.emailId)) ? [] : own;
    }
    const isInHand =
      (begunMs.get(email.index) ?? Infinity) <= toMs &&
      first.atMs >= fromMs - SETTLED_WITHIN_MS &&
      first.atMs <= toMs + SENT_WITHIN_MS;
    if (!isInHand) return own;
    repeated += inOrder.length - 1;
    return inOrder.slice(-1);
  });

  const webhooks = evidence.webhooks.map((set) => {
    const wanted = new Set(set.expected);
    const before = receivedBefore.get(set.endpoint) ?? new Set();
    const kept = [...set.received].filter(([id]) => wanted.has(id) || before.has(id));
    return { ...set, received: new Map(kept) };
  });
  const cancels = evidence.cancels.filter(
    ({ askedMs, answeredMs }) => answeredMs < fromMs || askedMs > toMs,
  );
  const kept = { ...evidence, requests, copies, webhooks, cancels };
  return { evidence: kept, lost, repeated };
}

/** Returns whether a worker logged that an email in its memory was lost: it had loaded the envelope before. */
export function isOfLostEmail(line: string, lost: ReadonlySet<string>): boolean {
  const [, id] = /queued email ([0-9a-f-]{36}) has no content/.exec(line) ?? [];
  return id !== undefined && lost.has(id);
}
