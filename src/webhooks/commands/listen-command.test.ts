/** `letterhaus webhooks listen` when its service or its target fails: what it says, and when it stops. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer } from 'node:net';
import { after, test } from 'node:test';
import { cleanEnv, LAUNCHER } from '../../../test/support/letterhaus.ts';
import { startService } from '../../../test/support/service.ts';
import { waitFor } from '../../../test/support/wait.ts';
import { startReceiver } from '../../../test/support/webhook-receiver.ts';

const service = await startService();
after(() => service[Symbol.asyncDispose]());

type Connection = { url: string; key: string };

/** Starts the command in its own process, because it runs until a signal. */
function listen({ url, key }: Connection, ...args: string[]) {
  const child = spawn(process.execPath, [LAUNCHER, 'webhooks', 'listen', ...args], {
    env: cleanEnv({ LETTERHAUS_API_KEY: key, LETTERHAUS_URL: url }),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exited = once(child, 'exit');
  const output = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output.stderr += text));
  return {
    output,
    exitCode: async (): Promise<unknown> => (await exited)[0],
    stop: (): void => void child.kill('SIGINT'),
    async [Symbol.asyncDispose]() {
      child.kill('SIGKILL');
      if (child.exitCode === null && child.signalCode === null) await exited;
    },
  };
}

function countOf(text: string, pattern: RegExp): number {
  return [...text.matchAll(new RegExp(pattern, 'g'))].length;
}

test('a target that does not respond is reported once, and posted to until it responds', async () => {
  await using target = await startReceiver('break off');
  const args = ['--forward-to', `${target.url}/hooks`, '--types', 'email.queued'];
  await using command = listen({ url: service.url, key: service.testKey }, ...args);
  // The command begins with new events, so emails are sent until it has one.
  await waitFor(
    async () => {
      await service.send();
      return target.received.length >= 2;
    },
    { what: 'a second post of the event', timeoutMs: 60_000, everyMs: 500 },
  );
  const line = /\/hooks does not respond \(.+\)\. This command tries again until it does\./;
  await waitFor(() => line.test(command.output.stderr), { what: 'the report of the target' });
  target.behaviour = 200;
  await waitFor(() => /->  200, /.test(command.output.stdout), {
    what: 'the event to be accepted',
    timeoutMs: 60_000,
  });
  assert.equal(countOf(command.output.stderr, line), 1);
  command.stop();
  assert.equal(await command.exitCode(), 0);
});

test('a service that does not respond is reported once, and connected to again', async () => {
  let connections = 0;
  const closing = createServer((socket) => {
    connections += 1;
    socket.destroy();
  }).listen(0, '127.0.0.1');
  await once(closing, 'listening');
  const { port } = closing.address() as AddressInfo;
  const args = ['--forward-to', 'http://127.0.0.1:1/hooks'];
  await using command = listen({ url: `http://127.0.0.1:${port}`, key: 'lh_test_any' }, ...args);
  await waitFor(() => connections >= 2, { what: 'a second connection', timeoutMs: 60_000 });
  command.stop();
  assert.equal(await command.exitCode(), 0);
  closing.close();
  const line = /The service does not respond \(.+\)\. This command tries again until the service/;
  assert.equal(countOf(command.output.stderr, line), 1, command.output.stderr);
});

test('a refused key and an address that is no service end the command with the reason', async () => {
  let status = 404;
  const website = createHttpServer((_request, response) => {
    response.writeHead(status, { 'content-type': 'text/html' }).end('<p>Hello</p>');
  }).listen(0, '127.0.0.1');
  await once(website, 'listening');
  const websiteUrl = `http://127.0.0.1:${(website.address() as AddressInfo).port}`;
  const args = ['webhooks', 'listen', '--forward-to', 'http://127.0.0.1:1/hooks'];
  const listenWith = async (url: string, key: string) => {
    const { code, stderr } = await service.cli(...args, '--url', url, '--key', key);
    return { code, stderr };
  };
  const create = ['keys', 'create', '--environment', 'test', '--permission', 'sending_access'];
  const { key: sendingKey } = await service.cliJson(...create);
  const refused = await listenWith(service.url, `lh_test_${'0'.repeat(43)}`);
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /API key/);
  const sending = await listenWith(service.url, sendingKey);
  assert.equal(sending.code, 1);
  const missing = await listenWith(websiteUrl, service.testKey);
  assert.equal(missing.code, 1);
  assert.match(missing.stderr, /status 404 and is not from Letterhaus/);
  status = 200;
  const html = await listenWith(websiteUrl, service.testKey);
  assert.equal(html.code, 1);
  assert.match(html.stderr, /not from Letterhaus: check the address/);
  website.close();
});
