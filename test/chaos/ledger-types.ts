/**
 * The evidence of a run: what was accepted, what is stored, what
 * arrived. Made by evidence.ts, judged by ledger.ts.
 */

import type { Skew } from './clocks.ts';

/** One email as the client knows it. Times are milliseconds of the clock of this machine. */
export type Request = {
  index: number;
  environment: 'live' | 'test';
  /** Without one it was tried once only. */
  isKeyed: boolean;
  /**
   * `accepted`: a 2xx came. `refused`: every answer was a refusal. `unknown`: an attempt got no
   * answer, or one that leaves it open, and no 2xx came after it.
   */
  outcome: 'accepted' | 'refused' | 'unknown';
  /** The ids of every 2xx. */
  ids: readonly string[];
  addresses: readonly string[];
  /** The index of the first email of its batch; null: it was sent by itself. */
  batch: number | null;
  /** By the clock of the database; null: at once. */
  scheduledAtMs: number | null;
  /** Its client asked to cancel it. */
  isCanceled: boolean;
  /** When its first attempt began. */
  begunMs: number;
  /** Answers that no client may get: the status and the body. */
  unexpectedAnswers: readonly string[];
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
  /** The dot of the attempt was written and its answer never came. */
  isInDoubt: boolean;
  /** The addresses of `email.canceled`, which is about the email; otherwise null. */
  canceled: readonly string[] | null;
};

/** A cancel that was answered with 200, and the recipients that its response shows as canceled. */
export type Cancel = {
  emailId: string;
  addresses: readonly string[];
  askedMs: number;
  answeredMs: number;
};

/** The events that one reader of the stream got, in their order, and those that it had to get. */
export type ReadStream = {
  reader: string;
  expected: readonly string[];
  received: readonly string[];
  /** A status that a reader must never get, and what it had asked for. */
  unexpectedAnswers: readonly string[];
};

/** The answers of nodes to one kind of attack (attacks.ts). */
export type AttackAnswers = {
  attack: string;
  /** Statuses that it may get, besides those of a busy service. */
  allowed: readonly number[];
  answers: readonly { status: number; count: number; example: string }[];
};

/** A message that a receiving server took responsibility for. */
export type Copy = {
  emailId: string;
  address: string;
  atMs: number;
  node: string;
  sessionBegunMs: number;
  /** Over TLS, to a server with a good certificate. */
  isTlsVerified: boolean;
};

export type WebhookSet = {
  endpoint: string;
  /** Ids of the events that it has subscribed. */
  expected: readonly string[];
  /** By id: the bodies that arrived, and whether every signature was valid. */
  received: ReadonlyMap<string, { bodies: ReadonlySet<string>; isVerified: boolean }>;
};

/**
 * A time in which a node may have lost work between a dot and its commit: it was killed, frozen,
 * taken for dead, or cut off from the database.
 */
export type Disturbance = { node: string; fromMs: number; toMs: number; what: string };

/** The only worker of a node stood still for longer than its lease lives. */
export type Freeze = { node: string; fromMs: number; toMs: number };

export type Evidence = {
  requests: readonly Request[];
  emails: readonly StoredEmail[];
  recipients: readonly StoredRecipient[];
  events: readonly StoredEvent[];
  /** The counts of `GET /v1/stats`, of all projects and times; what is missing is 0. */
  counts: Readonly<Record<string, number>>;
  copies: readonly Copy[];
  webhooks: readonly WebhookSet[];
  cancels: readonly Cancel[];
  streams: readonly ReadStream[];
  /** In their order; before the first one the clock of the database is right. */
  skews: readonly Skew[];
  disturbances: readonly Disturbance[];
  freezes: readonly Freeze[];
  /** Addresses that get nothing that was asked for after this time. */
  suppressed: readonly { address: string; sinceMs: number }[];
  /** Keys that were revoked: requests with them that began later and got a 2xx. */
  acceptedWithRevokedKey: readonly number[];
  /** From domains that were removed: requests that began later and got a 2xx. */
  acceptedFromRemovedDomain: readonly number[];
  /** Recipients that waited when their address was suppressed or their domain removed: no copy may follow. */
  stopped: readonly { emailId: string; address: string; sinceMs: number }[];
  /** Statuses that a recipient may end with; any final one where nothing is said. */
  mayEndAs: (address: string) => readonly string[] | null;
  /** Returns whether mail to the address may only go over TLS, to a server with a valid certificate. */
  needsVerifiedTls: (address: string) => boolean;
  attacks: readonly AttackAnswers[];
  /** Ids of emails and events in answers to the attacker, and those of its own project. */
  shown: { ids: readonly string[]; own: ReadonlySet<string> };
  left: { queue: number; webhookQueue: number; nodes: number; workers: number };
  /** Names that only test mail goes to and that were asked for in the DNS. */
  testLookUps: readonly string[];
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
  | 'unexpected_answer'
  | 'attacker_not_refused'
  | 'shown_to_attacker'
  | 'accepted_with_revoked_key'
  | 'accepted_from_removed_domain'
  | 'left_over'
  | 'test_mail_in_dns'
  | 'failpoint_not_hit'
  | 'fault_not_exercised'
  | 'broken_process';
