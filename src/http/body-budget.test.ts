/** Bodies are turned away by what is announced, so that no test has to send a hundred megabytes. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { type StubHttp, stubHttp } from '../../test/support/http.ts';
import { waitFor } from '../../test/support/wait.ts';

const MB = 1024 * 1024;
const EMAIL = { from: 'a@acme.com', to: 'jo@mail.org', subject: 'Hi', html: '<p>Hi</p>' };

/** A client that announces a body and does not send it; what it hears is collected in `heard`. */
function announce(http: StubHttp, header: string): Socket & { heard: string } {
  const socket = Object.assign(connect(http.port, '127.0.0.1'), { heard: '' });
  socket.setEncoding('latin1').on('data', (text: string) => (socket.heard += text));
  const head = [
    'POST /v1/emails HTTP/1.1',
    'Host: here',
    `Authorization: Bearer ${http.keys.full}`,
    'Content-Type: application/json',
    header,
  ];
  socket.write(`${head.join('\r\n')}\r\n\r\n`);
  return socket;
}

/** Two of 45 MB: 6 MB are left. */
async function fill(http: StubHttp): Promise<Socket[]> {
  const holding = [1, 2].map(() => announce(http, `Content-Length: ${45 * MB}`));
  const isFull = async () => (await http.post('/v1/emails', 'x'.repeat(7 * MB))).status === 503;
  await waitFor(isFull, { what: 'the budget to be used up' });
  return holding;
}

test('bodies beyond the budget get 503 before they are read, until others have gone', async () => {
  await using http = await stubHttp();
  const holding = await fill(http);
  const refused = announce(http, `Content-Length: ${20 * MB}`);
  await waitFor(() => refused.heard.endsWith('}}'), { what: 'an answer without the body' });
  assert.match(refused.heard, /^HTTP\/1\.1 503 /);
  assert.match(refused.heard, /retry-after: \d+/i);
  assert.match(refused.heard, /Nothing was accepted: too many large requests came at once/);
  assert.equal((await http.post('/v1/emails', EMAIL)).status, 202, 'small ones pass');

  for (const socket of [...holding, refused]) socket.destroy();
  const large = { ...EMAIL, html: 'x'.repeat(20 * MB) };
  await waitFor(async () => (await http.post('/v1/emails', large)).status !== 503, {
    what: 'room again',
  });
});

test('a body in chunks counts as it comes', async () => {
  await using http = await stubHttp();
  const holding = await fill(http);
  const chunked = announce(http, 'Transfer-Encoding: chunked');
  const chunk = Buffer.alloc(MB, ' ');
  for (let sent = 0; sent < 8; sent += 1) {
    chunked.write(`${MB.toString(16)}\r\n`);
    chunked.write(chunk);
    chunked.write('\r\n');
  }
  await waitFor(() => chunked.heard.endsWith('}}'), { what: 'an answer' });
  assert.match(chunked.heard, /^HTTP\/1\.1 503 /);
  for (const socket of [...holding, chunked]) socket.destroy();

  const whole = announce(http, 'Transfer-Encoding: chunked');
  const json = JSON.stringify(EMAIL);
  whole.write(`${json.length.toString(16)}\r\n${json}\r\n0\r\n\r\n`);
  await waitFor(() => whole.heard.includes('HTTP/1.1 202 '), { what: 'a chunked email to pass' });
  whole.end();
  await once(whole, 'close');
});

test('what was answered counts no more', async () => {
  await using http = await stubHttp();
  const body = JSON.stringify({ ...EMAIL, html: 'x'.repeat(MB) });
  for (let sent = 0; sent < 100; sent += 1) {
    assert.notEqual((await http.post('/v1/emails', body)).status, 503);
  }
});
