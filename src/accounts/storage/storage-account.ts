/**
 * The bytes that this worker has reserved of each project's maximum (accounts/storage/storage-store.ts).
 *
 * Each email takes its bytes before it is stored. Small emails share a chunk, so most of them need no query. A large
 * email reserves its own bytes. The rest of a chunk is returned after a minute. A reservation counts as used at
 * once, so projects never exceed their maximum, however many workers there are.
 */
import type { Logger } from 'pino';
import { storageRefusal, storedBytes } from './stored-bytes.ts';
import type { Refusal } from '../../core/refusals.ts';
import type { World } from '../../lib/world.ts';
import type { NewEmail } from '../../accept/store/new-email.ts';
import { SCHEDULE_DAYS_MAX } from '../../core/retry.ts';
import type { Queryable } from '../../database/database.ts';
import { releaseStorage, type Reservation, reserveStorage } from './storage-store.ts';
import { DAY_MS, MIB } from '../../lib/units.ts';

const CHUNK_BYTES = 4 * MIB;
/** Emails of this size or more reserve their own bytes. */
const SMALL_BYTES = MIB;
/** Milliseconds for which a full project is refused without another query. */
const REFUSED_FOR_MS = 1_000;
const RELEASE_EVERY_MS = 60_000;

type Sized = Pick<NewEmail, 'projectId' | 'scheduledAt'> & Parameters<typeof storedBytes>[0];
type FullProject = { neededBytes: number; untilMs: number; refusal: Refusal };

export class StorageAccount {
  readonly #db: Queryable;
  readonly #world: Pick<World, 'now' | 'monotonicMs'>;
  readonly #reserved = new Map<string, Reservation>();
  readonly #queries = new Map<string, Promise<unknown>>();
  readonly #fullProjects = new Map<string, FullProject>();
  readonly #timer: NodeJS.Timeout;

  constructor(
    db: Queryable,
    { world, log }: { world: Pick<World, 'now' | 'monotonicMs'>; log: Pick<Logger, 'warn'> },
  ) {
    this.#db = db;
    this.#world = world;
    this.#timer = setInterval(() => {
      this.#releaseUnused().catch((error: unknown) => {
        log.warn(
          { err: error },
          'reserved storage could not be given back; it counts as used until retention deletes its day',
        );
      });
    }, RELEASE_EVERY_MS).unref();
  }

  /** Takes the bytes of one email. Returns the refusal when there is no space, else null. */
  take(email: Sized): Refusal | null | Promise<Refusal | null> {
    return this.#take(this.#needOf(email));
  }

  /** Takes the bytes of all emails of a request, or of none. */
  async takeAll(emails: readonly Sized[]): Promise<Refusal | null> {
    const taken: Reservation[] = [];
    for (const need of mergeByDay(emails.map((email) => this.#needOf(email)))) {
      const refusal = await this.#take(need);
      if (refusal !== null) {
        for (const one of taken) this.#addReserved(one);
        return refusal;
      }
      taken.push(need);
    }
    return null;
  }

  release(email: Sized): void {
    this.#addReserved(this.#needOf(email));
  }

  /** Releases unused bytes, if the database is reachable. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#releaseUnused().catch(() => {});
  }

  async #releaseUnused(): Promise<void> {
    const unused = [...this.#reserved.values()].filter(({ bytes }) => bytes > 0);
    this.#reserved.clear();
    this.#fullProjects.clear();
    for (const one of unused) await releaseStorage(this.#db, one);
  }

  #needOf(email: Sized): Reservation {
    const nowMs = this.#world.now();
    const scheduledMs = email.scheduledAt?.getTime() ?? nowMs;
    // The accept statement refuses later times.
    const latestMs = nowMs + SCHEDULE_DAYS_MAX * DAY_MS;
    const day = dayOf(Math.min(latestMs, Math.max(nowMs, scheduledMs)));
    return { projectId: email.projectId, day, bytes: storedBytes(email) };
  }

  #take(need: Reservation): Refusal | null | Promise<Refusal | null> {
    return this.#takeReserved(need) ? null : (this.#knownRefusal(need) ?? this.#reserve(need));
  }

  #takeReserved(need: Reservation): boolean {
    const left = this.#reserved.get(keyOf(need));
    if (left === undefined || left.bytes < need.bytes) return false;
    left.bytes -= need.bytes;
    return true;
  }

  #addReserved(more: Reservation): void {
    const left = this.#reserved.get(keyOf(more));
    if (left) left.bytes += more.bytes;
    else this.#reserved.set(keyOf(more), { ...more });
  }

  #knownRefusal({ projectId, bytes }: Reservation): Refusal | null {
    const full = this.#fullProjects.get(projectId);
    if (full === undefined || bytes < full.neededBytes) return null;
    return this.#world.monotonicMs() < full.untilMs ? full.refusal : null;
  }

  /** Sends one query at a time for a project; concurrent callers use its reservation. */
  async #reserve(need: Reservation): Promise<Refusal | null> {
    const { projectId } = need;
    for (let other = this.#queries.get(projectId); other; other = this.#queries.get(projectId)) {
      await other.catch(() => {});
      if (this.#takeReserved(need)) return null;
      const refusal = this.#knownRefusal(need);
      if (refusal !== null) return refusal;
    }
    const asking = this.#queryReservation(need).finally(() => this.#queries.delete(projectId));
    this.#queries.set(projectId, asking);
    return asking;
  }

  async #queryReservation(need: Reservation): Promise<Refusal | null> {
    const { projectId, bytes: neededBytes } = need;
    const isSmall = neededBytes < SMALL_BYTES;
    const asked = isSmall && (await reserveStorage(this.#db, need, CHUNK_BYTES));
    const state = asked && asked.bytes > 0 ? asked : await reserveStorage(this.#db, need, 0);
    if (state.bytes > 0) {
      this.#addReserved({ ...need, bytes: state.bytes - neededBytes });
      return null;
    }
    const refusal = storageRefusal(state, neededBytes);
    const untilMs = this.#world.monotonicMs() + REFUSED_FOR_MS;
    this.#fullProjects.set(projectId, { neededBytes, untilMs, refusal });
    return refusal;
  }
}

const keyOf = ({ projectId, day }: Reservation): string => `${projectId} ${day}`;

/** The most recent day as text. Nearly all mail is of today, so formatting it once suffices. */
let lastDay = { number: NaN, text: '' };

function dayOf(ms: number): string {
  const number = Math.floor(ms / DAY_MS);
  if (number !== lastDay.number) {
    lastDay = { number, text: new Date(ms).toISOString().slice(0, 10) };
  }
  return lastDay.text;
}

/** Merges the needs of each day. */
function mergeByDay(needs: readonly Reservation[]): Reservation[] {
  return [...Map.groupBy(needs, keyOf).values()].map((same) => ({
    ...same[0]!,
    bytes: same.reduce((sum, { bytes }) => sum + bytes, 0),
  }));
}
