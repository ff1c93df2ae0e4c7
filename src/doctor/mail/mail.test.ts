/** Checks of relay, own ports, public URL and backups, on a healthy installation and with one fault at a time. */
import assert from 'node:assert/strict';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { type Changes, startDoctorLab } from '../../../test/support/doctor-lab.ts';
import { startFakeMx } from '../../../test/support/fake-mx.ts';
import { logIn, startSmtpServer } from '../../../test/support/smtp-server.ts';
import { serverReply } from '../../net/smtp/server/server-types.ts';
import { BACKUP } from './backup.ts';
import { INBOUND_PORT, OPEN_RELAY } from './own-ports.ts';
import { PUBLIC_URL } from './public-url.ts';
import { RELAY } from './relay.ts';

const lab = await startDoctorLab();
after(() => lab[Symbol.asyncDispose]());

const running = { isServiceRunning: true };

test('a relay is green when it accepts the log-in, without a message', async () => {
  await using relay = await startFakeMx({ auth: { user: 'us', pass: 'right' } });
  const env = { LETTERHAUS_RELAY_URL: `smtp://us:right@127.0.0.1:${relay.port}` };
  const [finding] = await lab.run(RELAY, { env });
  assert.equal(finding?.level, 'green', finding?.found ?? '');
  const lines = relay.sessions.flatMap((session) => session.lines);
  assert.ok(!lines.some((line) => line.startsWith('C: MAIL')), lines.join('\n'));
});

test('a relay with a wrong password, without a server or without an address is red', async () => {
  await using relay = await startFakeMx({ auth: { user: 'us', pass: 'right' } });
  const env = { LETTERHAUS_RELAY_URL: `smtp://us:wrong-one@127.0.0.1:${relay.port}` };
  const [refused] = await lab.run(RELAY, { env });
  assert.equal(refused?.level, 'red');
  assert.match(refused?.found ?? '', /refuses the log-in: 535/);
  assert.match(refused?.remedy ?? '', /^Correct user and password in LETTERHAUS_RELAY_URL/);
  assert.doesNotMatch(JSON.stringify(refused), /wrong-one/);
  await relay.stop();
  const [closed] = await lab.run(RELAY, { env });
  assert.match(closed?.found ?? '', /cannot be used: No connection \(ECONNREFUSED\)/);
});

/** A port of this installation, on which `server` listens. */
const withPort = ({ port }: { port: number }): Changes => ({
  env: { LETTERHAUS_INBOUND_PORT: String(port), LETTERHAUS_SMTP_HOST: '127.0.0.1' },
  machine: running,
});

test('an inbound port that refuses strangers is green, and one that relays is red', async () => {
  const refuse = { onRcpt: () => serverReply(550, '5.1.1', 'This server does not relay') };
  const onMessage = () => Promise.resolve(serverReply(250, '2.0.0', 'Taken'));
  await using strict = await startSmtpServer({ handlers: { ...refuse, onMessage } });
  const [port] = await lab.run(INBOUND_PORT, withPort(strict));
  assert.match(port?.found ?? '', /answers with TLSv1\.\d/);
  assert.equal(port?.level, 'green');
  const [closed] = await lab.run(OPEN_RELAY, withPort(strict));
  assert.equal(closed?.level, 'green', closed?.found ?? '');

  await using open = await startSmtpServer();
  const [relaying] = await lab.run(OPEN_RELAY, withPort(open));
  assert.equal(relaying?.level, 'red');
  assert.match(relaying?.found ?? '', /accepts mail for .*\.invalid without a log-in/);
  assert.match(relaying?.remedy ?? '', /^Stop the program that listens there/);
  assert.deepEqual(open.taken, [], 'no message was sent');
});

test('a submission port that asks for a log-in is green', async () => {
  await using server = await startSmtpServer({ logIn });
  const env = { LETTERHAUS_SUBMISSION_PORTS: `${server.port}`, LETTERHAUS_SMTP_HOST: '127.0.0.1' };
  const [finding] = await lab.run(OPEN_RELAY, { env });
  assert.equal(finding?.level, 'green', finding?.found ?? '');
});

test('a port without a server is red while the service runs, and unknown when it does not', async () => {
  await using server = await startSmtpServer();
  const port = withPort(server);
  await server.close();
  const [red] = await lab.run(INBOUND_PORT, port);
  assert.equal(red?.level, 'red');
  assert.match(red?.command ?? '', /^ss -ltnp/);
  const [unknown] = await lab.run(INBOUND_PORT, { ...port, machine: {} });
  assert.equal(unknown?.level, 'unknown');
  const [absent] = await lab.run(INBOUND_PORT);
  assert.deepEqual([absent?.level, absent?.subject], ['yellow', null]);
});

async function startHttp(status: number, body: string): Promise<Server & AsyncDisposable> {
  const server = createServer((_request, response) => response.writeHead(status).end(body));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}

const urlOf = (server: Server): string =>
  `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

test('a public URL at which something else answers is red', async () => {
  await using service = await startHttp(200, '{"status":"ok"}');
  const healthy = { env: { LETTERHAUS_PUBLIC_URL: urlOf(service) }, machine: running };
  const [green] = await lab.run(PUBLIC_URL, healthy);
  assert.equal(green?.level, 'green', green?.found ?? '');
  await using proxy = await startHttp(502, 'Bad Gateway');
  const env = { LETTERHAUS_PUBLIC_URL: urlOf(proxy) };
  const [broken] = await lab.run(PUBLIC_URL, { env, machine: running });
  assert.equal(broken?.level, 'red');
  assert.match(broken?.found ?? '', /responds with 502/);
  const [absent] = await lab.run(PUBLIC_URL);
  assert.equal(absent?.level, 'yellow');
});

test('a backup is red after a week, yellow when it is late, and named when it is on the same disk', async () => {
  const to = join(lab.dataDir, 'backups');
  const env = { LETTERHAUS_BACKUP_TO: to, LETTERHAUS_BACKUP_PASSPHRASE: 'long enough for this' };
  mkdirSync(to);
  const nowMs = Date.parse('2026-11-26T12:00:00Z');
  const world = { now: () => nowMs };
  const [none] = await lab.run(BACKUP, { env, world });
  assert.match(none?.found ?? '', /^There is no backup in/);
  const ages = {
    '20261117T090000Z': 'red',
    '20261125T090000Z': 'yellow',
    '20261126T090000Z': 'green',
  };
  for (const [time, level] of Object.entries(ages)) {
    writeFileSync(join(to, `letterhaus-${time}.backup`), '');
    const [age, disk] = await lab.run(BACKUP, { env, world });
    assert.equal(age?.level, level, age?.found ?? '');
    if (level === 'red') assert.match(age?.found ?? '', /^The newest backup is 9 days old/);
    assert.match(disk?.found ?? '', /are on the disk of the database/);
  }
});
