/** The daily check of all domains on a real database, with name servers that never answer. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import pino from 'pino';
import { startFakeDns } from '../../test/support/fake-dns.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { waitFor } from '../../test/support/wait.ts';
import { createResolver } from '../net/dns/resolver.ts';
import { newId } from '../database/ids.ts';
import { createOrganization, createProject } from '../accounts/projects/project-store.ts';
import { recheckDomains } from './domain-recheck.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;

const config = {
  hostname: 'mail.letterhaus.example',
  sources: [],
  domainsMax: 1000,
  inboundPort: 25,
};
const log = pino({ level: 'silent' });

async function newProject(zone: string, count: number, agoDays = 2): Promise<string> {
  const organization = await createOrganization(db, zone);
  const { id } = await createProject(db, organization.id, zone);
  await db.query(
    `insert into domains (project_id, id, environment, name, status, created_at, verified_at,
                          checked_at, rsa_selector, rsa_public_key, rsa_private_key,
                          ed25519_selector, ed25519_public_key, ed25519_private_key)
     select $1, unnest($2::uuid[]), 'live', unnest($3::text[]), 'verified', app_now(), app_now(),
            app_now() - $4 * interval '1 day', 's1', 'AAAA', '', 's2', 'BBBB', ''`,
    [
      id,
      Array.from({ length: count }, newId),
      Array.from({ length: count }, (_, n) => `${n}.${zone}`),
      agoDays,
    ],
  );
  return id;
}

async function due(projectId: string): Promise<number> {
  const rows = await db.query(
    `select from domains where project_id = $1 and checked_at < app_now() - interval '1 day'`,
    [projectId],
  );
  return rows.length;
}

test('a project whose name servers never answer does not delay the checks of others', async () => {
  // All domains of the silent project are overdue for longer than the others.
  const silent = await newProject('silent.test', 600, 9);
  const others = await Promise.all([1, 2, 3].map((n) => newProject(`quick${n}.test`, 5)));
  await using dns = await startFakeDns();
  for (let n = 0; n < 600; n += 1) {
    for (const name of ['s1._domainkey', 's2._domainkey', 'send', '_dmarc']) {
      dns.setFailure(`${name}.${n}.silent.test`, 'timeout');
    }
  }
  const world = { monotonicMs: () => performance.now() };
  const resolver = createResolver({ servers: [dns.server], world, queryTimeoutMs: 300 });
  let isStopping = false;
  const options = { resolver, config, log, isStopping: () => isStopping };
  const recheck = recheckDomains(db, options);
  await waitFor(async () => (await Promise.all(others.map(due))).every((count) => count === 0), {
    what: 'the domains of the other projects',
    timeoutMs: 60_000,
  });
  const left = await due(silent);
  assert.ok(left > 500, `${left} of 600 domains without an answer still wait for their check`);
  isStopping = true;
  await recheck;
  resolver.close();
  const states = await db.query<{ status: string }>(
    `select distinct status from domains where project_id = $1`,
    [silent],
  );
  assert.deepEqual(states, [{ status: 'verified' }], 'a silent DNS changes nothing');
});

test('one run checks all due domains, in rounds that alternate between projects', async () => {
  await db.query(`update domains set deleted_at = app_now()`);
  const projects = await Promise.all([1, 2, 3].map((n) => newProject(`many${n}.test`, 30)));
  await using dns = await startFakeDns();
  const world = { monotonicMs: () => performance.now() };
  const resolver = createResolver({ servers: [dns.server], world });
  await recheckDomains(db, { resolver, config, log, isStopping: () => false });
  resolver.close();
  for (const project of projects) assert.equal(await due(project), 0);
});
