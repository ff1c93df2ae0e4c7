/** Nodes of two versions on one database, as during an upgrade of several machines. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, request } from 'node:http';
import { json } from 'node:stream/consumers';
import { after, test } from 'node:test';
import { startJourney } from '../support/journey.ts';
import { waitFor } from '../support/wait.ts';

const journey = await startJourney();
after(() => journey[Symbol.asyncDispose]());
const { service } = journey;

/** Changes the database as a node of the next version does at its start. */
async function applyNext(version: number, sql: string): Promise<void> {
  await service.sql(sql);
  await service.sql(
    `insert into schema_migrations (version, name, md5, run_at) values ($1, 'next', '', now())`,
    [version],
  );
}

/** A request to send whose body is yet to come. */
async function beginRequest(): Promise<{ end(): Promise<{ status: number; message: string }> }> {
  const body = JSON.stringify({
    from: 'us@acme.example',
    to: 'jo@late.test',
    subject: 'Hi',
    text: 'Hi',
  });
  const sending = request(`${service.url}/v1/emails`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${await journey.key()}`,
      'content-type': 'application/json',
      'content-length': body.length,
      expect: '100-continue',
    },
  });
  sending.flushHeaders();
  await once(sending, 'continue');
  return {
    async end() {
      sending.end(body);
      const [response] = (await once(sending, 'response')) as [IncomingMessage];
      const { error } = (await json(response)) as { error: { message: string } };
      return { status: response.statusCode ?? 0, message: error.message };
    },
  };
}

test('a database with additive migrations of the next version still works, also after a restart', async () => {
  await applyNext(
    9001,
    `alter table emails add column grown text;
     alter table queue add column grown integer not null default 0;
     alter table nodes add column grown text`,
  );
  const mx = await journey.mailServer('grown.test');
  const before = await journey.send({ to: 'kim@grown.test' });
  assert.equal((await journey.ended(before)).status, 'delivered');
  assert.equal(await service.stop(), 0, service.logs);
  await service.restart();
  const later = await journey.send({ to: 'jo@grown.test' });
  assert.equal((await journey.ended(later)).status, 'delivered');
  assert.equal(mx.messages.length, 2);
});

test('when the schema requires the next version, the older version settles its work and ends with the reason', async () => {
  const slow = { phases: { data: { reply: '250 2.0.0 Taken', dripMs: 400 } } };
  const mx = await journey.mailServer('shrinking.test', slow);
  const id = await journey.send({ to: 'kim@shrinking.test' });
  const isAtDot = (): boolean =>
    mx.sessions.some(({ lines }) => lines.some((line) => line.startsWith('C: DATA')));
  await waitFor(isAtDot, { what: 'the email to be on its way' });
  const half = await beginRequest();
  await applyNext(9002, 'update installation set schema_required = 9002');
  const isClosed = (): Promise<boolean> =>
    fetch(service.url).then(
      () => false,
      () => true,
    );
  await waitFor(isClosed, { what: 'no more requests to be taken' });
  const late = await half.end();
  assert.deepEqual(late, {
    status: 503,
    message:
      'Nothing was accepted: the database was migrated for a newer version; try again in a moment.',
  });
  await waitFor(() => service.isSilent, { what: 'the service to end' });
  assert.match(
    service.logs,
    /"level":"fatal".*requires schema 9002, this version supports \d+\. Start the newer/,
  );
  assert.equal(await service.stop(), 1, 'it had ended by itself');

  const [row] = await service.sql('select status from recipients where email_id = $1', [id]);
  const [left] = await service.sql(
    `select (select count(*) from queue where email_id = $1)::int as queued,
            (select count(*) from nodes)::int as nodes`,
    [id],
  );
  assert.deepEqual(
    [mx.messages.length, row.status, left],
    [1, 'delivered', { queued: 0, nodes: 0 }],
  );

  const { code, stderr } = await service.cli('start', '--json');
  assert.equal(code, 2, stderr);
  assert.match(
    stderr,
    /requires schema 9002, this version supports \d+\. Start the newer version\./,
  );
  const command = await service.cli('keys', 'list');
  assert.equal(command.code, 2, command.stderr);
});
