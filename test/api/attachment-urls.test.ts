/** Attachments that a request names by URL: single, in a batch, at the root, repeated, and refused. */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, test } from 'node:test';
import PostalMime from 'postal-mime';
import { assertFailure, EMAIL } from '../support/api.ts';
import type { ApiResponse } from '../support/api-client.ts';
import { sharedService } from '../support/shared-service.ts';
import { waitFor } from '../support/wait.ts';

/** The files of the web server, by path. Tests change them. */
const files = new Map<string, Buffer>([['/terms.pdf', Buffer.from('%PDF-1.7 terms')]]);
const asked: string[] = [];
/** Requests without a response. */
const open = new Set<object>();
const web = createServer(({ url = '' }, response) => {
  asked.push(url);
  if (url === '/open') {
    open.add(response.once('close', () => open.delete(response)));
    return;
  }
  const file = files.get(url);
  response.writeHead(file === undefined ? 404 : 200).end(file);
});
await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve));
const site = `http://127.0.0.1:${(web.address() as AddressInfo).port}`;

const service = await sharedService();
after(() => {
  web.closeAllConnections();
  web.close();
});

const TERMS = { filename: 'terms.pdf', path: `${site}/terms.pdf` };

const post = (path: string, body: object, headers: Record<string, string> = {}) =>
  service.request('POST', path, { body, headers });

const send = (attachments: object[], headers?: Record<string, string>) =>
  post('/v1/emails', { ...EMAIL, attachments }, headers);

async function attachmentsOf({ body }: ApiResponse) {
  const content = await service.request('GET', `/v1/emails/${body.id}/content`);
  assert.equal(content.status, 200, content.text);
  const { attachments } = await PostalMime.parse(content.text);
  return attachments.map(({ filename, mimeType, content: bytes, contentId }) => ({
    filename,
    mimeType,
    contentId,
    text: typeof bytes === 'string' ? bytes : Buffer.from(new Uint8Array(bytes)).toString(),
  }));
}

async function storedEmails(): Promise<number> {
  const { body } = await service.request('GET', '/v1/emails?limit=100');
  assert.equal(body.has_more, false);
  return body.data.length;
}

test('an attachment is downloaded, and sent as one whose bytes came in the request', async () => {
  const logo = { filename: 'logo.png', path: `${site}/terms.pdf`, content_id: 'logo' };
  const response = await send([TERMS, logo]);
  assert.equal(response.status, 202, response.text);
  assert.deepEqual(await attachmentsOf(response), [
    {
      filename: 'logo.png',
      mimeType: 'image/png',
      contentId: '<logo>',
      text: '%PDF-1.7 terms',
    },
    {
      filename: 'terms.pdf',
      mimeType: 'application/pdf',
      contentId: undefined,
      text: '%PDF-1.7 terms',
    },
  ]);
});

test('the file is sent as it was when the email was accepted, also when the request is repeated', async () => {
  files.set('/changing.txt', Buffer.from('first'));
  const attachments = [{ filename: 'a.txt', path: `${site}/changing.txt` }];
  const key = { 'idempotency-key': 'changing' };
  const response = await send(attachments, key);
  assert.equal(response.status, 202, response.text);
  for (const later of [Buffer.from('second'), null]) {
    if (later === null) files.delete('/changing.txt');
    else files.set('/changing.txt', later);
    const repeated = await send(attachments, key);
    assert.equal(repeated.status, 200, repeated.text);
    assert.equal(repeated.text, response.text);
  }
  const [attachment] = await attachmentsOf(response);
  assert.equal(attachment?.text, 'first');
});

test('a file that is not there refuses the email, and nothing is stored', async () => {
  const before = await storedEmails();
  const missing = { filename: 'a.txt', path: `${site}/missing` };
  const response = await send([TERMS, missing]);
  assertFailure(
    response,
    422,
    'validation_error',
    /^attachments\[1\]\.path: .* responded with 404/,
  );
  assert.deepEqual(response.body.error.details[0].field, 'attachments[1].path');
  assert.equal(await storedEmails(), before);
});

test('an email that is refused anyway downloads nothing', async () => {
  const attachments = [{ filename: 'a.txt', path: `${site}/not-asked` }];
  const response = await post('/v1/emails', { ...EMAIL, to: 'nobody', attachments });
  assertFailure(response, 422, 'validation_error', /^to: /);
  assert.ok(!asked.includes('/not-asked'));
});

test('a strict batch is refused with its index, a permissive one sends the rest', async () => {
  const broken = { ...EMAIL, attachments: [{ filename: 'a.txt', path: `${site}/missing` }] };
  const items = [{ ...EMAIL, attachments: [TERMS] }, broken, { ...EMAIL, attachments: [TERMS] }];
  const strict = await post('/v1/emails/batch', items);
  assertFailure(strict, 422, 'validation_error', /^\[1\]\.attachments\[0\]\.path: /);
  asked.length = 0;
  const permissive = await post('/v1/emails/batch', items, { 'x-batch-validation': 'permissive' });
  assert.equal(permissive.status, 202, permissive.text);
  const { data, errors } = permissive.body;
  assert.deepEqual(
    errors.map(({ index }: { index: number }) => index),
    [1],
  );
  assert.equal(data.length, 2);
  assert.deepEqual(asked, ['/terms.pdf', '/missing']);
});

test('a dry run downloads the file and says the size of the whole message', async () => {
  files.set('/large.bin', Buffer.alloc(60_000, 'x'));
  const attachments = [{ filename: 'large.bin', path: `${site}/large.bin` }];
  const response = await post('/v1/emails?dry_run=true', { ...EMAIL, attachments });
  assert.equal(response.status, 200, response.text);
  assert.ok(response.body.message.size > 80_000, response.text);
});

test('the root of the API takes the filename from the path when there is none', async () => {
  const response = await post('/emails', {
    ...EMAIL,
    attachments: [{ path: `${site}/terms.pdf` }],
  });
  assert.equal(response.status, 200, response.text);
  const [attachment] = await attachmentsOf(response);
  assert.equal(attachment?.filename, 'terms.pdf');
});

test('when its client disconnects, a download ends', async () => {
  const client = new AbortController();
  const { signal } = client;
  const headers = {
    authorization: `Bearer ${service.testKey}`,
    'content-type': 'application/json',
  };
  const attachments = [{ filename: 'a.txt', path: `${site}/open` }];
  const body = JSON.stringify({ ...EMAIL, attachments });
  const url = `${service.url}/v1/emails`;
  const sent = fetch(url, { method: 'POST', headers, body, signal });
  await waitFor(() => open.size === 1, { what: 'the download' });
  client.abort();
  await assert.rejects(sent);
  await waitFor(() => open.size === 0, { what: 'the end of the download' });
});
