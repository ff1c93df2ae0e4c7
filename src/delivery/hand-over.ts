/**
 * The port through which accepting hands over emails to delivery in this process, so that the first attempt starts
 * without a poll of the queue table. queue/dispatcher.ts implements it; accept/accept.ts calls it.
 */
import type { Environment } from '../core/scope.ts';
import type { StoredMessage } from './message/message-store.ts';
import type { Delivery } from './memory/delivery.ts';

export type EmailHandOver = {
  /** Returns the provider of a destination, or the destination itself until its mail servers are known. */
  providerOf(environment: Environment, destination: string): string;
  hasSpaceFor(email: EmailToHandOver): boolean;
  handOver(email: HandedOverEmail): void;
};

/** An email before it is stored. */
export type EmailToHandOver = {
  projectId: string;
  /** The provider of each recipient. */
  providers: readonly string[];
  /** Number of recipients of the same request that are handed over before these. */
  recipientsAhead: number;
  lifetimeMs: number;
};

/** A stored email whose recipients this worker has claimed already. */
export type HandedOverEmail = {
  message: StoredMessage;
  recipients: readonly Pick<Delivery, 'position' | 'address' | 'destination'>[];
  /** The lease under which the recipients are stored. */
  leaseId: string;
  lifetimeMs: number;
};
