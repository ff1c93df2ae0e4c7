/**
 * Another program has taken every connection of the database. The connections of the service are enough to
 * accept and send mail, to send webhooks and to answer requests.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import pg from 'pg';
import { connectionNeeds } from '../../src/database/server/capacity.ts';
import { SINGLE_WORKER } from '../../src/database/database.ts';
import { waitForArrivals, FROM, newScene, waitForEmptyQueue, to } from '../support/scene.ts';
import type { Service } from '../support/service.ts';

const EMAILS = 20;

/** All that are left, those for superusers included. */
async function takeAll(service: Service): Promise<pg.Client[]> {
  const clients: pg.Client[] = [];
  for (;;) {
    const client = new pg.Client(service.address());
    client.on('error', () => {});
    const isIn = await client.connect().then(
      () => true,
      () => false,
    );
    if (!isIn) return clients;
    clients.push(client);
  }
}

test('when the database has no free connection, emails are still accepted, sent and shown', async () => {
  await using scene = await newScene({ database: 'own', args: ['--workers', '1'] });
  const { service, mx, key } = scene;
  // Nothing was accepted or settled so far: what that takes must be there all the same.
  await service.restart();
  const taken = await takeAll(service);
  assert.ok(taken.length > 20, `${taken.length} were left`);

  const ids: string[] = [];
  for (let index = 0; index < EMAILS; index += 1) {
    ids.push(await service.send({ from: FROM, to: to(index) }, { key }));
  }
  await waitForArrivals(mx, ids);
  await service.waitForStatus(ids[0]!, 'delivered', { key });
  await Promise.all(taken.map((client) => client.end()));
  await waitForEmptyQueue(service);
  assert.equal(mx.messages.length, EMAILS);
});

test('a service with nine workers accepts and sends, and leaves database connections free', async () => {
  await using scene = await newScene({ database: 'own', args: ['--workers', '9'] });
  const { service, mx, key } = scene;
  // With 100 connections for 9 workers of 12 there would be none left for anybody else.
  const others = [];
  for (let index = 0; index < 30; index += 1) {
    const client = new pg.Client(service.address());
    client.on('error', () => {});
    await client.connect();
    others.push(client);
  }
  const { rows } = await others[0]!.query<{ max: number }>(
    `select current_setting('max_connections')::int as max`,
  );
  const work = { ...SINGLE_WORKER, inbound: false, workers: 9 };
  assert.ok(
    rows[0]!.max >= connectionNeeds(work).connectionsMax + 30,
    `${rows[0]!.max} connections`,
  );
  const id = await service.send({ from: FROM, to: to(0) }, { key });
  await waitForArrivals(mx, [id]);
  await Promise.all(others.map((client) => client.end()));
  assert.doesNotMatch(service.logs, /too many clients|free connections/);
});
