import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { test } from 'node:test';
import { stubHttp, type StubHttp } from '../../test/support/http.ts';

const QUICK = { headersMs: 200, requestMs: 300, silenceMs: 60_000, closeMs: 100 };

/** Begins an upload and leaves it open. */
async function beginUpload(http: StubHttp, path = '/v1/suppressions/import'): Promise<Socket> {
  const socket = connect({ host: '127.0.0.1', port: http.port });
  await once(socket, 'connect');
  socket
    .setEncoding('utf8')
    .write(
      `POST ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${http.keys.full}\r\n` +
        'Content-Type: text/csv\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n' +
        '9\r\naddress\r\n\r\n',
    );
  return socket;
}

async function answerOn(socket: Socket): Promise<string> {
  let answer = '';
  for await (const piece of socket) answer += piece as string;
  return answer;
}

test('an upload may take longer than any other request', async () => {
  await using http = await stubHttp({ timeouts: QUICK });
  const upload = await beginUpload(http);
  // What began later than the upload is out of time, and so was the upload before.
  for (let round = 1; round <= 3; round += 1) {
    const late = await http.raw(
      `POST /v1/emails HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${http.keys.full}\r\n` +
        'Content-Type: application/json\r\nContent-Length: 10\r\n\r\n{',
    );
    assert.match(late, /^HTTP\/1\.1 408 /);
  }
  upload.write('0\r\n\r\n');
  const answer = await answerOn(upload);
  assert.match(answer, /^HTTP\/1\.1 200 /);
  assert.match(answer, /"added":0/);
});

test('an upload that falls silent is answered, not held for ever', async () => {
  await using http = await stubHttp({ timeouts: { ...QUICK, silenceMs: 50 } });
  const upload = await beginUpload(http);
  const answer = await answerOn(upload);
  assert.match(answer, /^HTTP\/1\.1 408 /);
  assert.match(answer, /0 addresses were added before/);
});

test('an upload that comes a byte at a time is answered, too', async () => {
  await using http = await stubHttp({ timeouts: { ...QUICK, silenceMs: 200 } });
  const upload = await beginUpload(http);
  const drip = setInterval(() => upload.write('1\r\na\r\n'), 20);
  const answer = await answerOn(upload);
  clearInterval(drip);
  assert.match(answer, /^HTTP\/1\.1 408 /);
  assert.match(answer, /0 addresses were added before/);
});

test('two uploads of a project run at once; more are turned away and not read', async () => {
  await using http = await stubHttp({ timeouts: QUICK });
  const uploads = [await beginUpload(http), await beginUpload(http)];
  const refused = async () => {
    const answer = await http.raw(
      `POST /v1/suppressions/import HTTP/1.1\r\nHost: x\r\nContent-Type: text/csv\r\n` +
        `Authorization: Bearer ${http.keys.full}\r\nContent-Length: 9\r\nConnection: close\r\n\r\naddress\r\n`,
    );
    return answer.startsWith('HTTP/1.1 503 ');
  };
  // Both have begun as soon as a third is refused.
  while (!(await refused())) await new Promise(setImmediate);
  for (const upload of uploads) upload.end('0\r\n\r\n');
  for (const upload of uploads) assert.match(await answerOn(upload), /^HTTP\/1\.1 200 /);
  assert.equal(await refused(), false);
});
