/** The examples of the documents work as pasted, with the documented responses. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { globSync, readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { assertFailure, UUID_V7 } from '../support/api.ts';
import type { ApiResponse } from '../support/api-client.ts';
import { sharedService } from '../support/shared-service.ts';

const ROOT = join(import.meta.dirname, '../..');

/** In place of the web server that the examples of attachments name. */
const web = createServer((_request, response) => response.end('%PDF-1.7'));
await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve));
const FILES = `http://127.0.0.1:${(web.address() as AddressInfo).port}/`;

const service = await sharedService();
after(() => web.close());

const read = (file: string) => readFileSync(join(ROOT, file), 'utf8');

type Example = { file: string; language: string; text: string };

function examplesIn(file: string): Example[] {
  return [...read(file).matchAll(/^ *```(\w+)\n(.*?)^ *```$/gms)].map((match) => ({
    file,
    language: match[1]!,
    text: match[2]!,
  }));
}

const files = ['README.md', ...globSync('docs/*.md', { cwd: ROOT }).toSorted()];
const examples = files.flatMap(examplesIn);
/** The requests to the API. test/journey/several-machines.test.ts runs the other commands. */
const curls = examples.filter(
  ({ text }) => /^ *curl /m.test(text) && text.includes('Authorization'),
);

/** The domain that the examples send from, add and verify. */
let domainId = await verifiedDomain('acme.com');

async function verifiedDomain(name: string): Promise<string> {
  const { body } = await service.request('POST', '/v1/domains', { body: { name } });
  await service.request('POST', `/v1/domains/${body.id}/verify`);
  return body.id;
}

/** The email that the examples ask about. */
const emailId = await service.send();

/** Lets a shell read the command as it stands, with a curl that prints its arguments. */
async function argumentsOf(script: string): Promise<string[]> {
  const curl = `curl() { printf '%s\\0' "$@"; }`;
  const env = {
    PATH: process.env['PATH'],
    BASE: service.url,
    ID: domainId,
    EMAIL_ID: emailId,
    KEY: service.testKey,
    LETTERHAUS_API_KEY: service.testKey,
  };
  const { stdout } = await promisify(execFile)('sh', ['-eu', '-c', `${curl}\n${script}`], { env });
  return stdout.split('\0').slice(0, -1);
}

/** Does what curl does with such arguments, at the service of this test. */
async function runCurl(script: string): Promise<ApiResponse> {
  const filledIn = script
    .replaceAll('https://acme.com/files/', FILES)
    .replaceAll('acme.example', 'acme.com')
    .replaceAll('lh_test_YOUR_KEY', service.testKey);
  const rest = await argumentsOf(filledIn);
  let [method, url, body] = ['GET', '', undefined as string | undefined];
  const headers: Record<string, string> = {};
  const query = new URLSearchParams();
  for (let argument = rest.shift(); argument !== undefined; argument = rest.shift()) {
    if (argument === '-s') continue;
    if (argument === '-G') continue;
    if (argument === '-X') method = rest.shift() ?? '';
    else if (argument === '--data-urlencode') {
      const [name = '', value = ''] = (rest.shift() ?? '').split(/=(.*)/s);
      query.append(name, value);
    } else if (argument === '-d') [method, body] = ['POST', rest.shift()];
    else if (argument === '-H') {
      const [name = '', value = ''] = (rest.shift() ?? '').split(/: (.*)/s);
      headers[name.toLowerCase()] = value;
    } else {
      assert.doesNotMatch(argument, /^-/, 'an option that this test does not know');
      url = argument;
    }
  }
  assert.equal(headers['authorization'], `Bearer ${service.testKey}`);
  const { pathname, search } = new URL(query.size > 0 ? `${url}?${query.toString()}` : url);
  return service.request(method, pathname + search, { key: null, headers, ...(body && { body }) });
}

test('the documents have examples', () => {
  const guides = ['sending', 'api', 'webhooks', 'domains'].map((name) => `docs/${name}.md`);
  for (const file of ['README.md', ...guides]) {
    assert.ok(
      curls.some((example) => example.file === file),
      file,
    );
  }
});

const WITHOUT_ID = ['list', 'dry_run', 'rendered_template', 'stats', 'email_cancellation'];

for (const [number, { file, text }] of curls.entries()) {
  test(`the curl in ${file} works as pasted: ${text.split('\n', 1)[0]} (${number})`, async () => {
    const addsDomain = /\/v1\/domains" /.test(text);
    if (addsDomain) await service.request('DELETE', `/v1/domains/${domainId}`);
    const response = await runCurl(text);
    assert.ok([200, 201, 202].includes(response.status), response.text);
    if (!WITHOUT_ID.includes(response.body.object)) {
      assert.match(response.body.id ?? response.body.data[0].id, UUID_V7);
    }
    if (addsDomain) domainId = response.body.id;
  });
}

test('the JSON examples are JSON', () => {
  const found = examples.filter(({ language }) => language === 'json');
  assert.ok(found.length >= 2);
  for (const { text } of found) assert.doesNotThrow(() => JSON.parse(text), text);
});

test('the response in README.md has the fields of a real response', async () => {
  const shown = examples.find(({ file, language }) => file === 'README.md' && language === 'json');
  const command = curls.find(({ file }) => file === 'README.md');
  const { status, body } = await runCurl(command!.text.replace('welcome-1', 'welcome-2'));
  assert.equal(status, 202);
  assert.deepEqual(Object.keys(JSON.parse(shown!.text)), Object.keys(body));
});

test('the error in docs/api.md is the real error', async () => {
  const shown = examples.find(
    ({ file, text }) => file === 'docs/api.md' && text.startsWith('{\n  "error"'),
  );
  const { error } = JSON.parse(shown!.text);
  const to = ['a@acme.com', 'b@acme.com', 'bob@'];
  const body = { from: 'hello@acme.com', to, subject: 'Hi', text: 'Hi' };
  const response = await service.request('POST', '/v1/emails', { body });
  assertFailure(response, 422, error.code);
  assert.ok(response.body.error.message.startsWith(error.message), response.text);
  assert.deepEqual(Object.keys(response.body.error), Object.keys(error));
  assert.deepEqual(Object.keys(response.body.error.details[0]), Object.keys(error.details[0]));
});

test('every endpoint that the documents name exists', async () => {
  const { body } = await service.request('GET', '/openapi.json');
  const known = Object.entries(body.paths as Record<string, object>).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  const named = files.flatMap((file) =>
    [...read(file).matchAll(/\b(GET|POST|PUT|PATCH|DELETE) (\/v1\/[\w/:-]+)/g)].map(
      ([, method, path]) => `${method} ${path!.replaceAll(/:(\w+)/g, '{$1}')}`,
    ),
  );
  assert.ok(named.length >= 8);
  for (const endpoint of named) assert.ok(known.includes(endpoint), endpoint);
});

test('docs/webhooks.md lists the events that a webhook can subscribe to', async () => {
  const items = read('docs/webhooks.md').matchAll(/^- (`[\w.`, ]+`): /gm);
  const listed = [...items].flatMap(([, item]) => {
    const names = [...item!.matchAll(/`([\w.]+)`/g)].map((match) => match[1]!);
    const [subject] = names[0]!.split('.');
    return names.map((name) => (name.startsWith('.') ? subject + name : name));
  });
  assert.ok(listed.length >= 14, listed.join());
  const body = { url: 'https://acme.com/all', events: listed };
  const response = await service.request('POST', '/v1/webhooks', { body });
  assert.equal(response.status, 201, response.text);
});
