/** The scene of webhook tests: a database with one project, the service, and workers with loops. */
import { randomUUID } from 'node:crypto';
import { pino } from 'pino';
import type { EventType } from '../../src/core/events.ts';
import { RESEND_FORMATS } from '../../src/compat/resend/wire/webhook-payload.ts';
import { isRefusal, type Refusal } from '../../src/core/refusals.ts';
import type { Scope } from '../../src/core/scope.ts';
import { type AddressGuard, createAddressGuard } from '../../src/net/ip-addresses.ts';
import { createResolver } from '../../src/net/dns/resolver.ts';
import { Database } from '../../src/database/database.ts';
import { recordEvent } from '../../src/events/event-store.ts';
import { newId } from '../../src/database/ids.ts';
import { registerWorker } from '../../src/delivery/queue/worker-store.ts';
import { createOrganization, createProject } from '../../src/accounts/projects/project-store.ts';
import { SecretBox } from '../../src/secrets/secret-box.ts';
import { systemWorld } from '../../src/service/machine/system-world.ts';
import { WebhookLoop, type WebhookLoopOptions } from '../../src/webhooks/sending/loop.ts';
import { WebhookService } from '../../src/webhooks/endpoints.ts';
import { testDatabase } from './postgres.ts';

export type WebhookTest = AsyncDisposable & {
  db: Database;
  scope: Scope;
  service: WebhookService;
  /** Registers an endpoint, or fails the test. */
  register(
    url: string,
    events?: readonly EventType[],
  ): Promise<{ id: string; signingSecret: string }>;
  /** Records an event as a change of a domain would; returns its id. */
  emit(type?: EventType): Promise<string>;
  /** Queues many events for one endpoint. */
  backlog(endpointId: string, count: number): Promise<void>;
  /** Starts a loop under its own worker; it stops with the test. */
  startLoop(options?: Partial<WebhookLoopOptions>): Promise<WebhookLoop & { leaseId: string }>;
  /** Changes the schema, as the owner of the tables. */
  change(statement: string): Promise<void>;
  /** Moves the database's clock. */
  advance(interval: string): Promise<void>;
};

const world = systemWorld;
const log = pino({ level: 'silent' });

const BACKLOG = `
with event as (
  insert into events (project_id, environment, subject_id, seq, id, type, created_at, data)
  select $1, 'live', id, 1, id, 'domain.verified', app_now(), '{}' from unnest($3::uuid[]) id
  returning *
), deliveries as (
  insert into webhook_deliveries (project_id, environment, endpoint_id, event_id, subject_id, seq,
                                  type, created_at)
  select project_id, environment, $2, id, id, 1, type, created_at from event returning *
)
insert into webhook_queue (project_id, endpoint_id, event_id, due_at)
select project_id, endpoint_id, event_id, created_at from deliveries`;

export async function webhookTest(
  guard: AddressGuard = createAddressGuard({ allowPrivate: true }),
): Promise<WebhookTest> {
  const { db, ...database } = await testDatabase();
  const resolver = createResolver({ servers: ['127.0.0.1:9'], world, budgetMs: 200 });
  const secrets = new SecretBox('x'.repeat(32));
  const otherFormats = RESEND_FORMATS;
  const outbound = { world, log, resolver, guard, secrets, otherFormats };
  const service = new WebhookService({ db, ...outbound });
  const { id: organizationId } = await createOrganization(db, 'Acme');
  const { id: projectId } = await createProject(db, organizationId, 'Acme');
  const scope: Scope = { projectId, environment: 'live' };
  const loops: WebhookLoop[] = [];
  const wake = (): void => loops.forEach((loop) => loop.wake());
  return {
    db,
    scope,
    service,
    async register(url, events) {
      const created = ok(await service.create(scope, { url, events: events ?? null }));
      return { id: created.endpoint.id, signingSecret: created.signingSecret };
    },
    async emit(type = 'domain.verified') {
      const mark = randomUUID();
      await recordEvent(db, { scope, type, data: { mark } });
      const find = `select id from events where data->>'mark' = $1`;
      const [event] = await db.query<{ id: string }>(find, [mark]);
      wake();
      return event!.id;
    },
    async backlog(endpointId, count) {
      const ids = Array.from({ length: count }, newId);
      await db.query(BACKLOG, [projectId, endpointId, ids]);
    },
    async startLoop(options) {
      const leaseId = newId();
      await registerWorker(db, { id: leaseId, instance: randomUUID(), host: 'test', pid: 1 });
      const loop = new WebhookLoop({
        db,
        ...outbound,
        leaseId: () => leaseId,
        isFresh: () => true,
        checksRequested: () => 0,
        ...options,
      });
      loops.push(loop);
      loop.start();
      return Object.assign(loop, { leaseId });
    },
    async change(statement) {
      const owner = new Database(database.address, { role: null, name: 'owner' });
      await owner.query(statement);
      await owner.close();
    },
    async advance(interval) {
      await db.query('update clock set skew = skew + $1::interval', [interval]);
      wake();
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(loops.map((loop) => loop.stop()));
      resolver.close();
      await database[Symbol.asyncDispose]();
    },
  };
}

/** Returns the response; throws for a refusal. */
export function ok<Value extends object>(value: Value | Refusal): Value {
  if (isRefusal(value)) throw new Error(`refused: ${value.message}`);
  return value;
}
