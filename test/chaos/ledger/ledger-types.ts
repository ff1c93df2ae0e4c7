/**
 * The evidence of a run: accepted requests, stored rows and arrived mail. evidence.ts gathers it, and ledger.ts judges
 * it.
 */

import type { Skew } from '../faults/clocks.ts';

/** One email as its client knows it. Times are in milliseconds, by the clock of this machine. */
export type Request = {
  index: number;
  environment: 'live' | 'test';
  /** Whether the request has an Idempotency-Key. A client sends a request without one only once. */
  isKeyed: boolean;
  /**
   * `accepted`: a 2xx arrived. `refused`: every response was a refusal. `unknown`: an attempt got no response, or an
   * ambiguous one, and no 2xx arrived later.
   */
  outcome: 'accepted' | 'refused' | 'unknown';
  /** Ids from all 2xx responses. */
  ids: readonly string[];
  addresses: readonly string[];
  /** Index of the first email in its batch; null: the email was sent without a batch. */
  batch: number | null;
  /** Scheduled time by the database's clock; null: not scheduled. */
  scheduledAtMs: number | null;
  /** Whether the client requested a cancel. */
  isCanceled: boolean;
  /** Time of the client's first attempt. */
  begunMs: number;
  /** Status and body of each response that no client may get. */
  unexpectedResponses: readonly string[];
};

export type StoredEmail = {
  id: string;
  index: number;
  environment: 'live' | 'test';
  subject: string;
  openCount: number;
  eventCount: number;
};

export type StoredRecipient = {
  emailId: string;
  position: number;
  address: string;
  status: string;
  attempts: number;
};

export type StoredEvent = {
  emailId: string;
  seq: number;
  type: string;
  position: number | null;
  hasAttempt: boolean;
  /** Whether the connection was lost after the final dot of the attempt. */
  isInDoubt: boolean;
  /** Addresses of `email.canceled`, which is about the email; null for other events. */
  canceled: readonly string[] | null;
};

/** A cancel that got a 200, and the recipients that its response shows as canceled. */
export type Cancel = {
  emailId: string;
  addresses: readonly string[];
  askedMs: number;
  answeredMs: number;
};

/** Events that one reader of the stream received, in order, and events that it should have received. */
export type ReadStream = {
  reader: string;
  expected: readonly string[];
  received: readonly string[];
  /** Status and request of each response that no reader may get. */
  unexpectedResponses: readonly string[];
};

/** Responses of the nodes to one kind of attack (attacker/attacks.ts). */
export type AttackResponses = {
  attack: string;
  /** Statuses that the attack may get, besides those of a busy service. */
  allowed: readonly number[];
  answers: readonly { status: number; count: number; example: string }[];
};

/** A message for which a receiving server took responsibility. */
export type Copy = {
  emailId: string;
  address: string;
  atMs: number;
  node: string;
  sessionBegunMs: number;
  /** Whether the message arrived over TLS, at a server with a verified certificate. */
  isTlsVerified: boolean;
};

export type WebhookSet = {
  endpoint: string;
  /** Ids of the events that the endpoint has subscribed to. */
  expected: readonly string[];
  /** Bodies that arrived, by event id, and whether every signature was valid. */
  received: ReadonlyMap<string, { bodies: ReadonlySet<string>; isVerified: boolean }>;
};

/**
 * A period in which a node may have lost work between a dot and its commit, because it was killed, frozen, declared
 * dead, or cut off from the database.
 */
export type Disturbance = { node: string; fromMs: number; toMs: number; what: string };

/** A period in which all workers of a node were frozen for longer than their leases last. */
export type Freeze = { node: string; fromMs: number; toMs: number };

export type Evidence = {
  requests: readonly Request[];
  emails: readonly StoredEmail[];
  recipients: readonly StoredRecipient[];
  events: readonly StoredEvent[];
  /** Counts of `GET /v1/stats`, of all projects and times. A missing count is 0. */
  counts: Readonly<Record<string, number>>;
  copies: readonly Copy[];
  webhooks: readonly WebhookSet[];
  cancels: readonly Cancel[];
  streams: readonly ReadStream[];
  /** Moves of the database's clock, in order. Before the first one the clock is right. */
  skews: readonly Skew[];
  disturbances: readonly Disturbance[];
  freezes: readonly Freeze[];
  /** Suppressed addresses. No mail that is requested after this time may go to them. */
  suppressed: readonly { address: string; sinceMs: number }[];
  /** Requests that began after their key was revoked and got a 2xx. */
  acceptedWithRevokedKey: readonly number[];
  /** Requests that began after the removal of their sending domain and got a 202. */
  acceptedFromRemovedDomain: readonly number[];
  /** Recipients that waited when their address was suppressed or their domain removed. No copy may follow. */
  stopped: readonly { emailId: string; address: string; sinceMs: number }[];
  /** Returns the allowed final statuses of a recipient; null: with any final status. */
  mayEndAs: (address: string) => readonly string[] | null;
  /** Returns whether mail to the address may be sent only over TLS with a verified certificate. */
  needsVerifiedTls: (address: string) => boolean;
  attacks: readonly AttackResponses[];
  /** Ids of emails and events in responses to the attacker, and ids of its own project. */
  shown: { ids: readonly string[]; own: ReadonlySet<string> };
  left: { queue: number; webhookQueue: number; nodes: number; workers: number };
  /** Names that only test mail goes to and that appeared in DNS queries. */
  testLookups: readonly string[];
};

export type Finding = { kind: FindingKind; what: string };

export type FindingKind =
  | 'lost'
  | 'unfinished'
  | 'never_arrived'
  | 'stored_though_refused'
  | 'two_emails_for_one_request'
  | 'unexpected_copy'
  | 'copy_of_test_mail'
  | 'unexplained_duplicate'
  | 'sent_to_suppressed'
  | 'sent_without_verified_tls'
  | 'sent_though_stopped'
  | 'sent_after_freeze'
  | 'frozen_worker_kept'
  | 'stuck_after_clock_step'
  | 'sent_after_cancel'
  | 'sent_before_its_time'
  | 'batch_in_part'
  | 'wrong_content'
  | 'event_not_streamed'
  | 'event_streamed_twice'
  | 'wrong_ending'
  | 'illegal_transition'
  | 'status_and_events_differ'
  | 'events_with_gaps'
  | 'counts_differ'
  | 'attempts_and_events_differ'
  | 'webhook_missing'
  | 'webhook_unexpected'
  | 'webhook_changed'
  | 'webhook_not_verified'
  | 'unexpected_response'
  | 'attacker_not_refused'
  | 'shown_to_attacker'
  | 'accepted_with_revoked_key'
  | 'accepted_from_removed_domain'
  | 'left_over'
  | 'test_mail_in_dns'
  | 'failpoint_not_hit'
  | 'fault_not_exercised'
  | 'broken_process';
