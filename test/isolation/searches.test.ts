/** Tests that the searches of one project do not occupy the readers of another. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startService } from '../support/service.ts';

const SEARCHES = 30;
const SEARCHED = 50_000;
/** Longest wait of a neighbour, in milliseconds, on a busy machine; 30 searches take several times that. */
const WITHIN_MS = 2_000;

const service = await startService({ env: { LETTERHAUS_LIMIT_SENDING: '100000/60' } });
after(() => service[Symbol.asyncDispose]());

const [first] = (await service.cliJson('projects', 'list')).data;

async function neighbour(): Promise<string> {
  await service.cliJson('projects', 'create', 'Neighbour');
  const made = await service.cliJson(
    'keys',
    'create',
    '--environment',
    'test',
    '--project',
    'Neighbour',
  );
  const { key } = made;
  const added = await service.request('POST', '/v1/domains', { key, body: { name: 'acme.test' } });
  await service.request('POST', `/v1/domains/${added.body.id}/verify`, { key });
  return key;
}

/** Stores emails of the first project that no search finds. */
async function fill(): Promise<void> {
  await service.sql(
    `insert into emails (project_id, environment, id, created_at, expires_at, domain_id, dual_signed,
                         from_address, to_list, cc_list, bcc_list, reply_to, subject, tags, metadata,
                         open_count, worst, event_count, last_event)
     select $1, 'test', uuidv7(), now(), now(), $1, false, 'hello@acme.test', '{}', '{}', '{}', '{}',
            repeat('nothing of it ', 60), '[]', '{}', 0, 0, 1, 'email.delivered'
       from generate_series(1, ${SEARCHED})`,
    [first.id],
  );
}

const timed = async (work: () => Promise<unknown>): Promise<number> => {
  const startedMs = performance.now();
  await work();
  return performance.now() - startedMs;
};

test('while a project searches a lot, another one reads, lists and sends at once', async () => {
  const key = await neighbour();
  await fill();
  const words = ['one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight'];
  const q = encodeURIComponent(words.map((word) => `${word}-${'x'.repeat(20)}`).join(' '));
  const search = () => service.request('GET', `/v1/emails?q=${q}`);
  const id = await service.send({}, { key });

  const progress = { isOver: false };
  const searches = Promise.all(Array.from({ length: SEARCHES }, search)).then((responses) => {
    progress.isOver = true;
    return responses.map(({ status }) => status);
  });
  const slowest = { read: 0, list: 0, search: 0, send: 0 };
  const note = async (what: keyof typeof slowest, work: () => Promise<unknown>): Promise<void> => {
    slowest[what] = Math.max(slowest[what], await timed(work));
  };
  const ask = async (path: string): Promise<void> => {
    assert.equal((await service.request('GET', path, { key })).status, 200);
  };
  let rounds = 0;
  while (!progress.isOver) {
    await Promise.all([
      note('read', () => ask(`/v1/emails/${id}`)),
      note('list', () => ask('/v1/emails?limit=5')),
      note('search', () => ask(`/v1/emails?q=${q}`)),
      note('send', () => service.send({}, { key })),
    ]);
    rounds += 1;
  }
  assert.deepEqual(new Set(await searches), new Set([200]));
  assert.ok(
    rounds >= 3,
    `only ${rounds} rounds were possible meanwhile: ${JSON.stringify(slowest)}`,
  );
  for (const ms of Object.values(slowest)) assert.ok(ms < WITHIN_MS, JSON.stringify(slowest));
});
