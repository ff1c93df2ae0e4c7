/** Compares the counts of mail after generated actions of two senders with the stored mail. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { randomFor, type RandomSource } from '../../test/chaos/random.ts';
import { address } from '../../test/support/deliveries.ts';
import {
  newEmail,
  newSender,
  type Sender,
  SETTLING,
  settlement,
} from '../../test/support/mail-store.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { countAgain, simplified } from '../../test/support/stats.ts';
import { EVENT_OF_STATUS } from '../core/events.ts';
import { describeDifference } from '../reconciliation/differences.ts';
import { STATS_DIMENSIONS, STATS_GRANULARITIES } from './counts.ts';
import type { StoredStatus } from '../core/statuses.ts';
import { AcceptStore } from '../accept/store/accept-store.ts';
import type { NewEmail } from '../accept/store/new-email.ts';
import { storeEmails } from '../accept/store/full-path.ts';
import { insertDomain, listDomains } from '../domains/domain-store.ts';
import { newId } from '../database/ids.ts';
import { createKey } from '../accounts/keys/key-store.ts';
import { registerWorker } from '../delivery/queue/worker-store.ts';
import { claimOldest } from '../delivery/queue/claim-store.ts';
import { type DayStep, readAccepted, walkDayStep } from '../reconciliation/reconciliation-store.ts';
import { DayFindings } from '../reconciliation/day-findings.ts';
import { NO_ID } from '../retention/retention-store.ts';
import { cancelEmail } from '../emails/schedule-store.ts';
import { storeFull } from '../settle/settle-full-path.ts';
import { SettleStore } from '../settle/settle-store.ts';
import { foldStats, readStats } from './stats-store.ts';
import { addSuppression } from '../suppressions/suppression-store.ts';
import { recordVisits } from '../tracking/tracking-store.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;

const LIMIT = { max: 1_000_000, windowS: 60 };
const GONE = 'gone@example.net';
const ACTIONS = 400;
const TEMPLATE_IDS = [newId(), newId()];
const ALWAYS = { from: new Date(0), to: new Date('2200-01-01'), domain: null };

type FullSender = { sender: Sender; keyIds: readonly string[] };
type Known = { email: NewEmail; position: number; claim: number; status: StoredStatus };

async function fullSender(): Promise<FullSender> {
  const sender = await newSender(db);
  const page = { limit: 9, after: null, before: null };
  const [stored] = (await listDomains(db, sender, page)).rows;
  const keys = { rsaPrivateKey: Buffer.from('sealed'), ed25519PrivateKey: Buffer.from('sealed') };
  await insertDomain(db, { ...stored!, ...keys, id: newId(), name: 'b.com' });
  const rights = { permission: 'full_access', domain: null, expiresAt: null } as const;
  const { key } = await createKey(db, sender, { name: 'other', ...rights });
  const entry = { reason: 'manual', sourceEmailId: null, expiresAt: null, by: 'api' } as const;
  await addSuppression(db, sender, { address: address(GONE), ...entry });
  return { sender, keyIds: [sender.keyId, key.id] };
}

class Actions {
  readonly #random: RandomSource;
  readonly #senders: readonly FullSender[];
  readonly #leaseId: string;
  readonly #accepting: AcceptStore;
  readonly #settling: SettleStore;
  readonly #emails = new Map<string, NewEmail>();
  readonly #leased: Known[] = [];
  readonly #ended: Known[] = [];
  /** Provider of each settled event, and of each ended recipient (its email and position). */
  readonly providers = new Map<string, string>();

  constructor(random: RandomSource, senders: readonly FullSender[], leaseId: string) {
    this.#random = random;
    this.#senders = senders;
    this.#leaseId = leaseId;
    const options = { leaseId: () => leaseId, onWebhooksQueued: () => {}, onUnknown: () => {} };
    this.#accepting = new AcceptStore(db.accepting, { limit: LIMIT, ...options });
    this.#settling = new SettleStore(db.settling, { ...SETTLING, ...options });
  }

  next(): Promise<unknown> {
    const kinds = [
      ...Array.from({ length: 3 }, () => () => this.accept()),
      ...Array.from({ length: 4 }, () => () => this.#settle()),
      ...Array.from({ length: 2 }, () => () => this.#visit()),
      () => this.#report(),
      () => this.#claim(),
      () => this.#cancel(),
      () => this.#beginAndDie(),
      () => this.#wait(),
      () => foldStats(db, this.#random.between(1, 30)),
    ];
    return this.#random.pick(kinds)();
  }

  async accept(): Promise<void> {
    const random = this.#random;
    const { sender, keyIds } = random.pick(this.#senders);
    const values = random.shuffled(['a', 'b', 'a']).slice(random.between(0, 3));
    const addresses = random.shuffled([
      'jo@example.net',
      'kim@example.net',
      GONE,
      'al@example.net',
    ]);
    const email = newEmail(sender, {
      to: addresses.slice(0, random.between(1, 3)),
      keyId: random.pick(keyIds),
      from: { name: null, address: address(random.pick(['hello@acme.com', 'hi@b.com'])) },
      tags: values.map((value) => ({ name: 'kind', value })),
      ...(random.chance(0.5) && { templateId: random.pick(TEMPLATE_IDS) }),
      mayHandOver: random.chance(0.8),
      acceptsSuppressed: true,
    });
    const row = await this.#accepting.accept(email);
    this.#emails.set(email.id, email);
    if (row.leaseId === null) return;
    const open = email.recipients.filter(
      ({ position }) => !row.suppressedPositions.includes(position),
    );
    this.#leased.push(
      ...open.map(({ position }) => ({ email, position, claim: 1, status: 'queued' as const })),
    );
  }

  async #settle(): Promise<void> {
    const one = this.#take(this.#leased);
    if (one === undefined) return;
    const ends = ['delivered', 'delivered', 'sent', 'bounced', 'failed', 'deferred'] as const;
    const status = this.#random.pick(ends);
    const provider = this.#random.pick(['google', 'yahoo']);
    const { email, position, claim } = one;
    const category = this.#random.pick(['mailbox', 'quota']);
    const reason = status === 'bounced' || status === 'deferred' ? { category } : null;
    const outcome = settlement(email, {
      status,
      reason,
      data: { email_id: email.id, status, reason },
      eventType: EVENT_OF_STATUS[status],
      position,
      claim,
      provider,
      retryMs: status === 'deferred' ? 1_000 : null,
    });
    assert.equal(await this.#settling.settle(outcome), 'counted');
    this.providers.set(outcome.eventId, provider);
    if (status === 'deferred') return;
    this.providers.set(`${email.id} ${position}`, provider);
    this.#ended.push({ ...one, status });
  }

  /** A late report: a bounce, a complaint or a confirmation. */
  async #report(): Promise<void> {
    const taken = this.#ended.filter(({ status }) => status === 'delivered' || status === 'sent');
    const one = this.#take(taken);
    if (one === undefined) return;
    const confirmed = one.status === 'sent' ? 'delivered' : 'bounced';
    const status = this.#random.pick(['bounced', 'complained', confirmed] as const);
    const change = { status, eventType: EVENT_OF_STATUS[status], position: one.position };
    const late = { late: true, attempt: null, provider: '' };
    const batch = [settlement(one.email, { ...change, ...late })];
    const { counted } = await storeFull(db, batch, { leaseId: null, extent: 'all' });
    assert.deepEqual(counted, [true]);
    one.status = status;
  }

  async #visit(): Promise<void> {
    const one = this.#take([...this.#ended]);
    if (one === undefined) return;
    const { projectId, environment, id: emailId } = one.email;
    const visits = [1, 2].map(() => ({
      projectId,
      environment,
      emailId,
      position: one.position,
      eventId: newId(),
      type: this.#random.pick(['email.opened', 'email.clicked'] as const),
      agoMs: 0,
      facts: {},
      botReason: this.#random.chance(0.4) ? 'scanner' : null,
    }));
    await recordVisits(db, visits);
  }

  async #claim(): Promise<void> {
    const every = { fullProjects: [], fullQueues: [], from: new Date(0) };
    const leaseId = this.#leaseId;
    const { claimed } = await claimOldest(db.settling, { leaseId, max: 20, readMax: 21, ...every });
    for (const { emailId, position, claim } of claimed) {
      const email = this.#emails.get(emailId)!;
      this.#leased.push({ email, position, claim, status: 'queued' });
    }
  }

  async #cancel(): Promise<void> {
    const { projectId, environment, id } = this.#random.pick([...this.#emails.values()]);
    await cancelEmail(db, { projectId, environment, id, keyId: null, domain: null });
  }

  async #beginAndDie(): Promise<void> {
    const { sender } = this.#random.pick(this.#senders);
    const options = { limit: LIMIT, leaseId: this.#leaseId, onWebhooksQueued: () => {} };
    const dying = db.transaction(async (tx) => {
      await storeEmails(tx, [newEmail(sender)], options);
      throw new Error('died');
    });
    await assert.rejects(dying, /died/);
  }

  async #wait(): Promise<void> {
    const minutes = this.#random.between(1, 90);
    await db.query(`update clock set skew = skew + $1 * interval '1 minute'`, [minutes]);
  }

  #take(from: Known[]): Known | undefined {
    return from.splice(this.#random.between(0, Math.max(0, from.length - 1)), 1)[0];
  }
}

const DAYS = `
select distinct (created_at at time zone 'UTC')::date::text as day from emails where project_id = $1`;

/**
 * Runs the daily reconciliation's statements from the first id, because another clock than the database's makes
 * the ids.
 */
async function unaccounted({ projectId }: Sender): Promise<string[]> {
  const days = await db.query<{ day: string }>(DAYS, [projectId]);
  assert.ok(days.length > 0);
  const found: string[] = [];
  for (const { day } of days) {
    const findings = new DayFindings();
    let from: string | null = NO_ID;
    while (from !== null) {
      const step: DayStep = await walkDayStep(db, { projectId, day }, from);
      findings.add(step);
      from = step.next;
    }
    const accepted = await readAccepted(db, { projectId, day });
    found.push(...findings.differences(accepted).map(describeDifference));
  }
  return found;
}

test('after generated actions the counts match the emails and their events, and all mail is accounted for', async () => {
  const seed = 4711;
  const senders = [await fullSender(), await fullSender()];
  const leaseId = newId();
  await registerWorker(db, { id: leaseId, instance: newId(), host: 'here', pid: 1 });
  const actions = new Actions(randomFor(seed, 'stats'), senders, leaseId);
  await actions.accept();
  for (let left = ACTIONS; left > 0; left -= 1) await actions.next();

  const { providers } = actions;
  const questions = senders.flatMap(({ sender }) =>
    STATS_GRANULARITIES.flatMap((granularity) =>
      [null, ...STATS_DIMENSIONS].map((by) => ({ sender, granularity, by })),
    ),
  );
  const compare = async (when: string): Promise<void> => {
    for (const { sender, granularity, by } of questions) {
      const rows = (await readStats(db, sender, { ...ALWAYS, granularity, by }))!;
      const again = await countAgain(db, sender, { by, granularity, providers });
      const what = `seed ${seed}, ${when}, ${granularity}s by ${by}`;
      assert.deepEqual(rows.map(simplified).toSorted(), again, what);
    }
    for (const { sender } of senders) assert.deepEqual(await unaccounted(sender), [], when);
  };
  await compare('partly added up');
  while ((await foldStats(db, 1_000)) > 0);
  await compare('added up');
});
