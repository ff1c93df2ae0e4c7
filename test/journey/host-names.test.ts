/**
 * Nodes with different host names on one database: they require the same records of a domain, and a
 * domain that one node verified stays verified at the others.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startFakeDns } from '../support/fake-dns.ts';
import { migratedDatabase } from '../support/postgres.ts';
import type { Env } from '../support/letterhaus.ts';
import { startService, type Service } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const dns = await startFakeDns();
const database = await migratedDatabase();
const one = await startService({ dns, database, env: env('mail1.letterhaus.example') });
await one.addLiveDomain('acme.example');
const two = await startService({ dns, database, env: env('mail2.letterhaus.example') });
after(async () => {
  for (const part of [two, one, database, dns]) await part[Symbol.asyncDispose]();
});

type Body = Awaited<ReturnType<Service['request']>>['body'];

function env(hostname: string | undefined): Env {
  return {
    LETTERHAUS_HOSTNAME: hostname,
    LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1',
    LETTERHAUS_SECRET_KEY: 'a'.repeat(64),
    LETTERHAUS_LIMIT_VERIFICATION: '1000/60',
  };
}

async function mxOf(node: Service, id: string): Promise<string> {
  const { body } = await node.request('GET', `/v1/domains/${id}`, { key: await node.liveKey() });
  return body.records.find(({ type }: Body) => type === 'MX').value;
}

async function verified(node: Service, key: string, id: string): Promise<Body> {
  const { body } = await node.request('POST', `/v1/domains/${id}/verify`, { key });
  return body;
}

function problemsOf(domain: Body): string[] {
  return domain.records.flatMap(({ problem }: Body) => problem ?? []);
}

test('a domain stays verified when it is checked by a node with another host name', async () => {
  const key = await one.liveKey();
  const { body: list } = await two.request('GET', '/v1/domains', { key });
  const [{ id }] = list.data;

  const byTwo = await verified(two, key, id);
  assert.equal(byTwo.status, 'verified');
  const states = byTwo.records.filter(({ required }: Body) => required);
  assert.deepEqual(
    states.map(({ status }: Body) => status),
    ['verified', 'verified', 'verified'],
  );
  assert.equal(byTwo.records[2].value, 'mail1.letterhaus.example', 'both ask for the same host');
  const [said] = problemsOf(byTwo);
  assert.match(said ?? '', /does not name all sending hosts .*a:mail2\.letterhaus\.example/);

  // As its owner corrects it.
  dns.set('send.acme.example', 'TXT', [byTwo.records[3].value]);
  for (const node of [two, one]) {
    const domain = await verified(node, key, id);
    assert.deepEqual([domain.status, problemsOf(domain)], ['verified', []]);
  }

  // Bounces reach the service at either name; at any other they do not.
  dns.set('send.acme.example', 'MX', [
    '10 mail2.letterhaus.example',
    '20 mail1.letterhaus.example',
  ]);
  for (const node of [one, two]) {
    assert.deepEqual(problemsOf(await verified(node, key, id)), []);
  }
  dns.set('send.acme.example', 'MX', ['10 mail2.letterhaus.example', '10 mx.other.example']);
  for (const node of [one, two]) {
    const domain = await verified(node, key, id);
    assert.equal(domain.records[2].status, 'mismatch');
    assert.match(
      domain.records[2].problem,
      /mx\.other\.example has the same or a better priority than ours/,
    );
  }
});

test('a command changes the return-path host for all nodes and prints the records to publish', async () => {
  await one.addLiveDomain('news.example');
  const shown = await one.cli('domains', 'return-path-host');
  assert.equal(shown.code, 0, shown.stderr);
  assert.match(shown.stdout, /mail1\.letterhaus\.example receives the bounces/);

  const refused = await one.cli('domains', 'return-path-host', 'mail');
  assert.equal(refused.code, 2);
  assert.match(refused.stderr, /not fully qualified/);
  const changed = await one.cli('domains', 'return-path-host', 'bounces.letterhaus.example');
  assert.equal(changed.code, 0, changed.stderr);
  assert.match(
    changed.stdout,
    /2 verified domains.*MX.*10 bounces\.letterhaus\.example.*within 72 hours/s,
  );
  const key = await one.liveKey();
  const { body } = await one.request('GET', '/v1/domains', { key });
  const { id } = body.data.find(({ name }: Body) => name === 'news.example');
  for (const node of [one, two]) {
    const domain = await verified(node, key, id);
    assert.equal(domain.records[2].value, 'bounces.letterhaus.example');
    assert.equal(domain.records[2].status, 'verified', 'the name of a node still leads here');
  }
  dns.set('send.news.example', 'MX', ['10 bounces.letterhaus.example']);
  for (const node of [one, two]) assert.deepEqual(problemsOf(await verified(node, key, id)), []);
});

test('the records follow the first valid host name, and verified domains stay verified when it changes', async () => {
  const service = await startService({ dns, env: env(undefined) });
  await using _ = service;
  const restartAs = async (hostname: string): Promise<void> => {
    service.env['LETTERHAUS_HOSTNAME'] = hostname;
    await service.restart();
  };
  const key = await service.liveKey();
  const { body } = await service.request('POST', '/v1/domains', {
    key,
    body: { name: 'moving.example' },
  });
  for (const name of ['mial.letterhaus.example', 'mail.letterhaus.example']) {
    await restartAs(name);
    await verified(service, key, body.id);
    assert.equal(await mxOf(service, body.id), name);
  }
  const { records } = await verified(service, key, body.id);
  for (const { type, name, value, priority } of records) {
    dns.set(name, type, [priority === undefined ? value : `${priority} ${value}`]);
  }
  assert.equal((await verified(service, key, body.id)).status, 'verified');

  await restartAs('new.letterhaus.example');
  const domain = await verified(service, key, body.id);
  assert.equal(domain.status, 'verified');
  assert.equal(domain.records[2].value, 'mail.letterhaus.example');
  assert.equal(domain.records[2].status, 'verified');
  await waitFor(
    () => /bounces of all domains still come back to mail\.letterhaus/.test(service.logs),
    {
      what: 'a word about the host that the records name',
    },
  );
});

test('a return-path host that was set by command is kept at starts under any host name', async () => {
  await using service = await startService({ dns, env: env('mail.letterhaus.example') });
  const { code } = await service.cli('domains', 'return-path-host', 'Bounces.letterhaus.example');
  assert.equal(code, 0);
  service.env['LETTERHAUS_HOSTNAME'] = 'other.letterhaus.example';
  await service.restart();
  const key = await service.liveKey();
  const body = { name: 'early.example' };
  const added = await service.request('POST', '/v1/domains', { key, body });
  assert.equal(added.body.records[2].value, 'bounces.letterhaus.example');
});
