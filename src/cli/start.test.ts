/** Starting, stopping, and commands beside a running service, all with the embedded database. */
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Dialogue } from '../../test/support/smtp-dialogue.ts';
import { letterhaus, letterhausHere } from '../../test/support/letterhaus.ts';
import { type Service, startService } from '../../test/support/service.ts';
import { eventually } from '../../test/support/wait.ts';
import { makeSelfSigned } from '../net/tls/self-signed.ts';

/** One worker is enough here, and is ready sooner. */
const ONE = { args: ['--workers', '1'] };

/** For tests of commands beside a running service, each with rows of its own. */
let shared: Service;
before(async () => {
  shared = await startService({ ...ONE, env: { LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1' } });
});
after(() => shared[Symbol.asyncDispose]());

/** A service with a database of its own, as an operator has it. */
let embedded: Service;
before(async () => {
  embedded = await startService({ ...ONE, database: 'own' });
});
after(() => embedded[Symbol.asyncDispose]());

/** A service that is open to other machines, and to mail. */
let exposed: Service;
before(async () => {
  const smtp = { LETTERHAUS_INBOUND_PORT: '0', LETTERHAUS_SMTP_HOST: '127.0.0.1' };
  exposed = await startService({ ...ONE, env: { HOST: '0.0.0.0', ...smtp } });
});
after(() => exposed[Symbol.asyncDispose]());

test('a first start prints one JSON line with a valid key, a later start prints no key', async () => {
  const service = embedded;
  const { url, pid, data_dir, database, test_key } = service.readyLine;
  assert.match(url, /^http:\/\/127\.0\.0\.1:\d+$/);
  assert.equal(pid, service.pid);
  assert.equal(data_dir, service.dataDir);
  assert.match(database, /PostgreSQL 18/);
  const response = await service.request('GET', '/v1/api-keys/current', { key: test_key ?? null });
  assert.equal(response.status, 200);

  await service.stop();
  await service.restart();
  assert.equal('test_key' in service.readyLine, false);
  assert.equal((await service.request('GET', '/v1/projects')).body.data.length, 1);
});

test('Ctrl-C that arrives twice, from the terminal and from npm, still drains', async () => {
  const service = embedded;
  const id = await service.send();
  process.kill(-service.pid, 'SIGINT');
  process.kill(-service.pid, 'SIGINT');
  assert.equal(await service.stop('SIGINT'), 0);
  await service.restart();
  await service.waitForStatus(id, 'delivered');
});

test('a second start on one data directory names the first and exits with 2', async () => {
  const service = embedded;
  const { code, stdout, stderr } = await service.cli('start', ...ONE.args);
  assert.equal(code, 2);
  assert.equal(stdout, '');
  assert.ok(stderr.includes(service.url), stderr);
  assert.ok(stderr.includes(String(service.pid)), stderr);
});

test('a configured port that is in use exits with 2', async () => {
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const { port } = taken.address() as AddressInfo;
  const env = { PORT: String(port) };
  await assert.rejects(startService({ ...ONE, env }), (error: Error) => {
    assert.match(error.message, /ended with 2/);
    assert.match(error.message, new RegExp(`PORT: port ${port} is in use`));
    return true;
  });
  await once(taken.close(), 'close');
});

test('a mail port that is in use, or a missing certificate, exits with 2', async () => {
  const taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const { port } = taken.address() as AddressInfo;
  const startsWith = (env: Record<string, string>, sentence: RegExp) =>
    assert.rejects(startService({ ...ONE, env }), (error: Error) => {
      assert.match(error.message, /ended with 2/);
      assert.match(error.message, sentence);
      return true;
    });
  await startsWith(
    { LETTERHAUS_INBOUND_PORT: String(port), LETTERHAUS_SMTP_HOST: '127.0.0.1' },
    new RegExp(`LETTERHAUS_INBOUND_PORT: port ${port} is in use`),
  );
  await startsWith(
    {
      LETTERHAUS_INBOUND_PORT: '0',
      LETTERHAUS_TLS_CERT: '/nowhere',
      LETTERHAUS_TLS_KEY: '/nowhere',
    },
    /LETTERHAUS_TLS_CERT: \/nowhere does not exist/,
  );
  await once(taken.close(), 'close');
});

test('an invalid API certificate exits with 2 before anything is started', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'letterhaus-start-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const validity = { fromMs: Date.now() - 60_000, untilMs: Date.now() + 3_600_000 };
  const write = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text);
    return join(folder, name);
  };
  const cert = write('cert.pem', makeSelfSigned('api.test', validity).certificate);
  const key = write('key.pem', makeSelfSigned('api.test', validity).privateKey);
  for (const [env, sentence] of [
    [
      { LETTERHAUS_API_TLS_CERT: cert, LETTERHAUS_API_TLS_KEY: key },
      /_API_TLS_KEY: .* is not the key/,
    ],
    [
      { LETTERHAUS_API_TLS_CERT: key, LETTERHAUS_API_TLS_KEY: key },
      /_API_TLS_CERT: .* no certificate/,
    ],
    [
      { LETTERHAUS_API_TLS_CERT: cert },
      /LETTERHAUS_API_TLS_KEY: the path of its private key is missing/,
    ],
  ] as const) {
    await assert.rejects(startService({ ...ONE, env }), (error: Error) => {
      assert.match(error.message, /ended with 2/);
      assert.match(error.message, sentence);
      return true;
    });
  }
});

test('a start that serves the API in clear text to other machines logs a warning, unless a proxy is configured', async () => {
  const warning = /the API is served in clear text to other machines/;
  await exposed.logged(warning);
  const behindProxy = { HOST: '0.0.0.0', LETTERHAUS_TRUSTED_PROXIES: '192.0.2.7' };
  await using service = await startService({ ...ONE, env: behindProxy });
  assert.doesNotMatch(service.logs, warning);
  assert.doesNotMatch(shared.logs, warning);
});

test('ports for SMTP are chosen, opened and printed', async () => {
  const service = exposed;
  const { inbound_port = 0 } = service.readyLine;
  await using client = await Dialogue.greeted(inbound_port);
  assert.equal(await client.ask('MAIL FROM:<>'), '250 2.1.0 Ok');
  assert.match((await client.ask('RCPT TO:<jo@acme.test>')) ?? '', /^550 5\.1\.1 /);
  await service.logged(/self-signed certificate; set LETTERHAUS_TLS_CERT/);
  const stopped = service.stop();
  assert.match((await client.readReply()) ?? '', /^421 4\.3\.2 /);
  assert.equal(await stopped, 0);
});

test('--only with mail ports requires that a port is set', async () => {
  const service = shared;
  const { code, stderr } = await service.cli('start', '--only', 'inbound');
  assert.equal(code, 2);
  assert.match(stderr, /set LETTERHAUS_INBOUND_PORT or LETTERHAUS_SUBMISSION_PORTS/);
});

test('commands use the running service, and say how to start one that does not run', async () => {
  const service = embedded;
  const { key } = await service.cliJson('keys', 'create', '--environment', 'live');
  assert.equal((await service.request('GET', '/v1/projects', { key })).status, 200);
  await service.stop();
  const list = await service.cli('keys', 'list', '--environment', 'live');
  assert.equal(list.code, 2);
  assert.match(
    list.stderr,
    /^letterhaus: No service is running on this machine .*: start it with /,
  );
});

test('the list of keys fits the terminal, and is not cut where its output is piped', async () => {
  const name = 'The key of the shop that is rotated every quarter';
  await shared.cliJson('keys', 'create', '--environment', 'live', '--name', name);
  const list = ['keys', 'list'];
  const onTerminal = await letterhausHere(list, shared.env, { widthColumns: 125 });
  for (const line of onTerminal.stdout.split('\n')) assert.ok(line.length <= 125, line);
  assert.match(onTerminal.stdout, /^[0-9a-f-]{36} .*The key of.*…$/m);
  const piped = await letterhaus(list, shared.env);
  assert.ok(piped.stdout.includes(name), piped.stdout);
});

test('a domain is added with its records, checked and removed', async () => {
  const service = shared;
  const added = await service.cliJson('domains', 'add', 'Example.org');
  assert.equal(added.name, 'example.org');
  assert.equal(added.records.length, 4);
  const key = await service.liveKey();
  const response = await service.request('GET', `/v1/domains/${added.id}`, { key });
  assert.deepEqual(response.body, added);

  const verified = await service.cli('domains', 'verify', 'example.org');
  assert.equal(verified.code, 1);
  assert.match(verified.stdout, /^example\.org is not verified yet\./);
  const again = await service.cli('domains', 'add', 'example.org');
  assert.equal(again.code, 1);
  assert.match(again.stderr, /example\.org is a domain of this project/);

  const removed = await service.cli('domains', 'remove', 'example.org');
  assert.equal(removed.code, 0, removed.stderr);
  assert.equal((await service.cliJson('domains', 'list', '--environment', 'live')).data.length, 0);
  const gone = await service.cli('domains', 'verify', 'example.org');
  assert.match(gone.stderr, /There is no domain "example\.org" in the live environment/);
});

test('an address is suppressed and removed again', async () => {
  const service = shared;
  const words = ['--environment', 'test'];
  const added = await service.cli('suppressions', 'add', 'Jo@Example.org', ...words);
  assert.equal(added.stdout, 'Jo@example.org gets no more mail.\n');
  const again = await service.cli('suppressions', 'add', 'jo@example.org', ...words);
  assert.match(again.stdout, /was suppressed already \(manual\)/);
  const { data } = await service.cliJson('suppressions', 'list');
  assert.deepEqual(
    data.map(({ address, environment, reason }: Record<string, string>) => [
      address,
      environment,
      reason,
    ]),
    [['Jo@example.org', 'test', 'manual']],
  );
  const elsewhere = await service.cli('suppressions', 'remove', 'jo@example.org');
  assert.equal(elsewhere.code, 1);
  const removed = await service.cli('suppressions', 'remove', 'jo@example.org', ...words);
  assert.equal(removed.code, 0);
});

test('a webhook is added, listed, and removed by its id alone', async () => {
  const service = shared;
  const url = 'http://127.0.0.1:9/hooks';
  const made = await service.cliJson(
    'webhooks',
    'add',
    url,
    '--environment',
    'test',
    '--events',
    'email.bounced',
  );
  assert.match(made.signing_secret, /^whsec_/);
  const { data } = await service.cliJson('webhooks', 'list');
  assert.deepEqual(data[0].events, ['email.bounced']);
  assert.equal(data[0].signing_secret, undefined);
  await service.cliJson('webhooks', 'enable', made.id);
  await service.cliJson('webhooks', 'remove', made.id);
  const again = await service.cli('webhooks', 'remove', made.id);
  assert.equal(again.code, 1);
});

test('send posts to the running service and prints the id or the error', async () => {
  const service = shared;
  const email = ['--to', 'delivered@simulator.test', '--subject', 'Hi', '--text', 'Hello'];
  const key = ['--key', service.testKey];
  const from = ['--from', 'hello@acme.test'];
  const sent = await service.cliJson('send', ...from, ...email, ...key);
  await service.waitForStatus(sent.id, 'delivered');

  const refused = await service.cli('send', '--from', 'a@other.test', ...email, ...key);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /^letterhaus: .*other\.test/);
  const nowhere = await service.cli(
    'send',
    ...from,
    ...email,
    ...key,
    '--url',
    'http://127.0.0.1:9',
  );
  assert.equal(nowhere.code, 1);
  assert.match(nowhere.stderr, /No response from the service at http:\/\/127\.0\.0\.1:9/);
});

test('on the machine of the service, send needs no key and leaves none', async () => {
  const service = shared;
  // Without last_used_at, which is stored some seconds after the use of an earlier test.
  const keys = async (): Promise<string[]> =>
    (await service.cliJson('keys', 'list')).data.map(({ id }: { id: string }) => id);
  const keysBefore = await keys();
  const email = ['--from', 'hello@acme.test', '--to', 'delivered@simulator.test'];
  const send = ['send', ...email, '--subject', 'No key', '--text', 'Hello'];
  const sent = await service.cliJson(...send);
  const { environment } = await service.cliJson('emails', 'show', sent.id);
  assert.equal(environment, 'test');
  const live = await service.cli(...send, '--environment', 'live');
  assert.match(live.stderr, /acme\.test/);
  assert.equal(live.code, 1);
  const rows = () => service.sql(`select 1 from api_keys where name = 'letterhaus send'`);
  // The key is deleted when the command has its response, not just revoked.
  await eventually(async () => assert.deepEqual(await rows(), []));
  assert.deepEqual(await keys(), keysBefore);

  // The key of a command that was killed before it could delete it.
  await service.sql(`
    insert into api_keys (project_id, id, environment, name, sha256, hint, permission,
                          created_at, expires_at)
    select project_id, gen_random_uuid(), environment, 'letterhaus send', sha256('left'), 'lh', permission,
           app_now() - interval '6 minutes', app_now() - interval '1 minute'
      from api_keys where environment = 'test' limit 1`);
  await service.cliJson(...send);
  await eventually(async () => assert.deepEqual(await rows(), []));
  assert.deepEqual(await keys(), keysBefore);
});

test('send --batch sends the emails of a file, one for each line', async () => {
  const service = shared;
  const file = join(service.dataDir, 'emails.jsonl');
  const lines = ['delivered@simulator.test', 'bob@'].map((to) =>
    JSON.stringify({ from: 'hello@acme.test', to, subject: 'Hi', text: 'Hello' }),
  );
  const send = ['send', '--batch', file, '--key', service.testKey];
  writeFileSync(file, `${lines.join('\n')}\n`);
  const refused = await service.cli(...send);
  assert.match(refused.stderr, /\[1\]\.to: "bob@" is not an email address/);
  const { stdout } = await service.cli(...send, '--permissive');
  assert.match(
    stdout,
    /^1 of 2 emails are accepted.*\nEmail 2: to: "bob@" is not an email address/,
  );
  writeFileSync(file, lines[0]!);
  const { data, errors } = await service.cliJson(...send);
  assert.deepEqual([data.length, errors], [1, []]);
});

test('the emails of both environments are listed, and one is shown with its timeline', async () => {
  const service = shared;
  const id = await service.send({ subject: 'Your receipt' });
  await service.waitForStatus(id, 'delivered');
  const list = await service.cli('emails', 'list');
  assert.match(list.stdout, new RegExp(`${id} .*delivered .*Your receipt`));
  const shown = await service.cli('emails', 'show', id);
  assert.match(shown.stdout, /delivered@simulator\.test/);
  const json = await service.cliJson('emails', 'show', id);
  assert.equal(json.status, 'delivered');
  const missing = await letterhaus(['emails', 'show', service.dataDir], service.env);
  assert.equal(missing.code, 1);
});
