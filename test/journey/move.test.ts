/** The database of a service is moved while clients send: nothing is lost, nothing goes twice, and the node follows. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { arrivals, duplicates } from '../support/load.ts';
import { cleanEnv, letterhausHere } from '../support/letterhaus.ts';
import { emptyDatabase, migratedDatabase } from '../support/postgres.ts';
import { waitForArrivals, FROM, liveEnv, newPeers, to } from '../support/scene.ts';
import { type Service, startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const CLIENTS = 4;
const BEFORE = 60;
const AFTER = 40;
/** So that some messages are under way at any moment. */
const THINKS_MS = 60;

/** Clients that repeat each request with its idempotency key until it is accepted. */
class Clients {
  readonly accepted: string[] = [];
  readonly refused = new Set<number>();
  readonly #clients: Promise<void>[];
  #count = 0;
  #isOver = false;

  constructor(service: Service, key: string) {
    this.#clients = Array.from({ length: CLIENTS }, () => this.#run(service, key));
  }

  async #run(service: Service, key: string): Promise<void> {
    while (!this.#isOver) {
      const number = (this.#count += 1);
      const body = { from: FROM, to: to(number), subject: 'Hello', text: 'Hello' };
      const headers = { 'idempotency-key': `request ${number}` };
      await waitFor(
        async () => {
          const response = await service
            .request('POST', '/v1/emails', { key, body, headers })
            .catch(() => null);
          // A request that was accepted before its response was lost gets a 200.
          const isAccepted = response !== null && [200, 202].includes(response.status);
          if (isAccepted) this.accepted.push(response.body.id);
          else if (response !== null) this.refused.add(response.status);
          return isAccepted;
        },
        { what: `request ${number} to be accepted`, timeoutMs: 60_000 },
      );
    }
  }

  async untilAccepted(count: number): Promise<void> {
    await waitFor(() => this.accepted.length >= count, {
      what: `${count} emails to be accepted`,
      timeoutMs: 60_000,
    });
  }

  async stop(): Promise<void> {
    this.#isOver = true;
    await Promise.all(this.#clients);
  }
}

/** All events after a cursor, by type. */
async function eventsAfter(service: Service, key: string, cursor: string) {
  const counts = new Map<string, number>();
  let after = cursor;
  for (;;) {
    const path = `/v1/events?limit=100&after=${encodeURIComponent(after)}`;
    const { status, body, text } = await service.request('GET', path, { key });
    assert.equal(status, 200, text);
    for (const { type } of body.data) counts.set(type, (counts.get(type) ?? 0) + 1);
    after = body.cursor;
    if (!body.has_more) return counts;
  }
}

test('an embedded database moves to a server and back into the data directory under load', async () => {
  await using peers = await newPeers({
    phases: { data: { afterMs: THINKS_MS, reply: '250 2.0.0 OK' } },
  });
  const env = liveEnv(peers, { LETTERHAUS_LOG: 'info' });
  await using service = await startService({ database: 'own', dns: peers.dns, env });
  await service.addLiveDomain('acme.example.org');
  const key = await service.liveKey();
  const { body: start } = await service.request('GET', '/v1/events?after=latest', { key });
  const clients = new Clients(service, key);
  await clients.untilAccepted(BEFORE);
  await using server = await emptyDatabase();

  const plan = await letterhausHere(['move', '--dry-run', '--to', server.url], service.env);
  assert.equal(plan.code, 0, plan.stderr);
  assert.match(plan.stdout, /^From embedded to postgres:.*\n\d+ MB in \d+ rows, \d+ emails/);
  const moved = await letterhausHere(['move', '--json', '--to', server.url], service.env);
  assert.equal(moved.code, 0, moved.stderr);
  const { rows } = JSON.parse(moved.stdout);
  assert.ok(rows.emails >= BEFORE);
  const steps = moved.stderr
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).step);
  assert.deepEqual(
    [...new Set(steps)],
    ['log', 'copy', 'rounds', 'pause', 'lock', 'depart', 'open'],
  );
  const before = clients.accepted.length;
  await clients.untilAccepted(before + AFTER);
  assert.equal(existsSync(join(service.dataDir, 'pg', 'postmaster.pid')), false);

  // Commands and starts with the old setting say where the database is.
  const old = await letterhausHere(['migrate'], service.env);
  assert.equal(old.code, 2);
  assert.match(
    old.stderr,
    /is not the embedded one, but postgres:.*: set DATABASE_URL to postgres:/,
  );

  // Back: the service has the lock of the data directory, and goes on meanwhile.
  const withServer = cleanEnv({ ...service.env, DATABASE_URL: server.url });
  const full = await letterhausHere(['move', '--to', 'embedded'], withServer);
  assert.equal(full.code, 2, full.stderr);
  assert.match(full.stderr, /The target has data, and a move needs an empty database/);
  await clients.stop();
  await waitForArrivals(peers.mx, clients.accepted);
  assert.equal(duplicates(arrivals(peers.mx)), 0);
  assert.deepEqual(
    [...clients.refused].filter((status) => status !== 503),
    [],
  );
  const open = `select count(*)::int as count from emails where open_count > 0`;
  await waitFor(async () => (await server.sql(open))[0].count === 0, { what: 'all mail to end' });
  const events = await eventsAfter(service, key, start.cursor);
  assert.equal(events.get('email.delivered'), clients.accepted.length);

  await service.logged(/the database is being moved; this node sends nothing for some seconds/);
  await service.logged(/this node continues with the new one/);
  await service.logged(/this node follows; set DATABASE_URL to postgres:/);
  // A start with the old setting follows, too.
  await service.restart();
  assert.match(service.readyLine.database, /^postgres:/);
  assert.equal((await service.email(clients.accepted[0]!, key)).status, 'delivered');
});

test('a database on a server moves into the data directory of the node', async () => {
  await using service = await startService();
  const ids = [await service.send(), await service.send()];
  const { code, stdout, stderr } = await letterhausHere(['move', '--to', 'embedded'], service.env);
  assert.equal(code, 0, stderr);
  assert.match(
    stdout,
    /^Moved 2 emails, \d+ MB, to embedded\. Sending paused for .*\nRunning nodes follow/,
  );
  const place = (): string =>
    JSON.parse(readFileSync(join(service.dataDir, 'database.json'), 'utf8')).database;
  await waitFor(() => place() === 'embedded', {
    what: 'the node to use the embedded database',
  });
  const isReady = async (): Promise<boolean> =>
    (await service.request('GET', '/readyz', { key: null }).catch(() => null))?.status === 200;
  await waitFor(isReady, { what: 'the service to be ready' });
  for (const id of ids) await service.waitForStatus(id, 'delivered');
  await service.waitForStatus(await service.send(), 'delivered');
  const again = await letterhausHere(['move', '--to', 'embedded'], service.env);
  assert.equal(again.code, 2);
  assert.match(
    again.stderr,
    /was moved to the embedded database of a node at .*: unset DATABASE_URL/,
  );
  await service.stop();
});

test('all nodes follow a move, and come back to the old database on hold when it is undone', async () => {
  await using old = await migratedDatabase();
  await using server = await emptyDatabase();
  const env = { LETTERHAUS_SECRET_KEY: 'a secret key that all nodes have in common' };
  await using first = await startService({ database: old, env });
  await using second = await startService({ database: old, env });
  const nodes = [first, second];
  const key = first.testKey;
  const early = await first.send();
  await first.waitForStatus(early, 'delivered');
  const { code, stderr } = await letterhausHere(['move', '--to', server.url], first.env);
  assert.equal(code, 0, stderr);
  await Promise.all(nodes.map((node) => untilAt(node, server)));
  const late = [await first.send({}, { key }), await second.send({}, { key })];
  for (const id of late) await first.waitForStatus(id, 'delivered');
  assert.deepEqual(await old.sql('select id from emails'), [{ id: early }]);

  const undone = await letterhausHere(['move', '--undo'], first.env);
  assert.equal(undone.code, 0, undone.stderr);
  assert.match(
    undone.stdout,
    /^The database is used again as it was at .*\nThe installation is on hold/,
  );
  const isOnHold = async (node: Service): Promise<boolean> =>
    (await node.request('GET', '/readyz', { key: null }).catch(() => null))?.body?.on_hold === true;
  for (const node of nodes) {
    await waitFor(() => isOnHold(node), { what: 'a node to come back' });
  }
  assert.equal((await second.email(early, key)).status, 'delivered');
  assert.equal((await second.request('GET', `/v1/emails/${late[0]}`, { key })).status, 404);
  await assert.rejects(server.sql('delete from emails'), /this database was moved to postgres:/);
  const released = await letterhausHere(['release', '--except-in-doubt'], first.env);
  assert.equal(released.code, 0, released.stderr);
  await first.waitForStatus(await first.send(), 'delivered');
  assert.equal((await letterhausHere(['move', '--undo'], first.env)).code, 2);
});

/** Resolves when a node uses this database and is ready. */
async function untilAt(node: Service, { url }: { url: string }): Promise<void> {
  const name = new URL(url).pathname.slice(1);
  const isThere = async (): Promise<boolean> => {
    const note = readFileSync(join(node.dataDir, 'database.json'), 'utf8');
    if (!note.includes(name)) return false;
    const response = await node.request('GET', '/readyz', { key: null }).catch(() => null);
    return response?.status === 200;
  };
  await waitFor(isThere, { what: 'a node to follow and be ready' });
}
