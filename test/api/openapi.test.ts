/** The OpenAPI document: it is valid, equals the one in docs/, and matches every response. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { EMAIL, UNKNOWN_ID } from '../support/api.ts';
import { ENDPOINTS, operatorResponses } from '../support/api-operations.ts';
import { Browser, OWNER, currentCode, tokenOf } from '../support/browser.ts';
import { Authenticator } from '../support/authenticator.ts';
import { PROVIDER_TOKEN, startDnsProviderServer } from '../support/dns-provider-server.ts';
import { startIdentityProvider } from '../support/identity-provider.ts';
import type { ApiResponse, RequestOptions, Service } from '../support/service.ts';
import { startService } from '../support/service.ts';
import { startReceiver } from '../support/webhook-receiver.ts';
import { waitFor } from '../support/wait.ts';

const FILE = join(import.meta.dirname, '../../docs/openapi.json');

type JsonSchema = { [keyword: string]: unknown; examples?: unknown[] };
type Content = Record<string, { schema: JsonSchema }>;
type Operation = {
  operationId: string;
  summary: string;
  tags?: string[];
  security?: object[];
  parameters?: { name: string; in: string; required?: boolean; schema: JsonSchema }[];
  requestBody?: { content: Content };
  responses: Record<string, { description: string; content?: Content }>;
};
type Document = {
  openapi: string;
  info: { title: string; version: string };
  security: object[];
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, JsonSchema>; securitySchemes: Record<string, object> };
};

const idp = await startIdentityProvider();
const dnsProvider = await startDnsProviderServer('hetzner', { 'published.test': [] });
const service = await startService({
  env: {
    ...idp.env,
    LETTERHAUS_DNS_PROVIDER: 'hetzner',
    HCLOUD_TOKEN: PROVIDER_TOKEN,
    LETTERHAUS_DNS_API_URL: dnsProvider.access.baseUrl ?? '',
    LETTERHAUS_PUBLIC_URL: 'https://mail.acme.test',
    LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1',
    LETTERHAUS_LIMIT_AUTH: '1000/60',
    LETTERHAUS_LIMIT_VERIFICATION: '1000/60',
  },
});
after(async () => {
  await service[Symbol.asyncDispose]();
  await idp[Symbol.asyncDispose]();
  await dnsProvider[Symbol.asyncDispose]();
});
idp.serve('https://mail.acme.test');

const served = await service.request('GET', '/openapi.json', { key: null });
const document = served.body as Document;

const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({
    method: method.toUpperCase(),
    path,
    ...operation,
  })),
);

/** Checks values against a schema of the document: what it does not name may not be there. */
function checkerOf(schema: JsonSchema): z.ZodType {
  return z.fromJSONSchema({ ...closed(schema), $defs: definitions });
}

/** The schema with `additionalProperties: false` in every object that names its properties. */
function closed(schema: JsonSchema): JsonSchema {
  const text = JSON.stringify(schema, (_, value: unknown) => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
    const isClosed = 'properties' in value && !('additionalProperties' in value);
    return isClosed ? { ...value, additionalProperties: false } : value;
  });
  return JSON.parse(text.replaceAll('#/components/schemas/', '#/$defs/')) as JsonSchema;
}

const definitions = Object.fromEntries(
  Object.entries(document.components.schemas).map(([name, schema]) => [name, closed(schema)]),
);

/** Every schema in the document, those inside of schemas too. */
function* schemasIn(value: unknown): Generator<JsonSchema> {
  if (typeof value !== 'object' || value === null) return;
  if ('type' in value || 'anyOf' in value || 'oneOf' in value || '$ref' in value) yield value;
  for (const inner of Object.values(value)) yield* schemasIn(inner);
}

test('docs/openapi.json is the document that is served', async () => {
  assert.match(served.headers.get('content-type') ?? '', /^application\/json/);
  assert.deepEqual(JSON.parse(await readFile(FILE, 'utf8')), document, 'run: npm run openapi');
});

test('the document is OpenAPI 3.1 without external references', () => {
  assert.match(document.openapi, /^3\.1\.\d$/);
  assert.ok(document.info.title && document.info.version);
  assert.ok(Object.keys(document.components.securitySchemes).length > 0);
  const ids = operations.map(({ operationId }) => operationId);
  assert.equal(new Set(ids).size, ids.length);
  for (const { method, path, operationId, summary, parameters = [], responses } of operations) {
    assert.match(operationId, /^[a-z][A-Za-z]+$/);
    assert.ok(summary, operationId);
    const inPath = parameters.filter((one) => one.in === 'path' && one.required === true);
    assert.deepEqual(
      inPath.map(({ name }) => name),
      [...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]),
      `${method} ${path}`,
    );
    assert.ok(Object.keys(responses).some((status) => status.startsWith('2')));
    for (const [status, { description }] of Object.entries(responses)) {
      assert.match(status, /^[2-5]\d\d$/);
      assert.ok(description, `${operationId} ${status}`);
    }
  }
  for (const [, kind, name] of served.text.matchAll(
    /"\$ref":\s*"#\/components\/(\w+)\/([\w-]+)"/g,
  )) {
    const components: Record<string, Record<string, unknown>> = document.components;
    assert.ok(components[kind!]?.[name!], `${kind}/${name}`);
  }
  assert.equal(
    served.text.match(/"\$ref"/g)?.length,
    served.text.match(/"\$ref":\s*"#\/components\//g)?.length,
  );
});

test('the check detects a response that differs from the document', () => {
  const checker = checkerOf(document.components.schemas['AcceptedEmail']!);
  const good = {
    object: 'email',
    id: UNKNOWN_ID,
    status: 'queued',
    created_at: '2026-11-21T08:30:00.123Z',
  };
  const changes = [{ id: 7 }, { id: 'x' }, { status: 'gone' }, { created_at: 'now' }, { more: 1 }];
  assert.ok(checker.safeParse(good).success);
  for (const change of [...changes, { id: undefined }]) {
    assert.ok(!checker.safeParse({ ...good, ...change }).success, JSON.stringify(change));
  }
});

test('every endpoint is documented', () => {
  const described = operations.map(({ method, path }) => `${method} ${path}`);
  const wanted = ENDPOINTS.split('\n').map((line) => line.trim());
  assert.deepEqual(new Set(described), new Set(wanted.filter(Boolean)));
});

test('examples match their schemas', () => {
  let checked = 0;
  for (const schema of schemasIn(document)) {
    for (const example of schema.examples ?? []) {
      const result = checkerOf(schema).safeParse(example);
      assert.ok(result.success, `${JSON.stringify(example)}: ${result.error?.message}`);
      checked += 1;
    }
  }
  assert.ok(checked > 20, String(checked));
});

test('examples of bodies are accepted', async () => {
  for (const { method, path, requestBody } of operations) {
    const schema = requestBody?.content['application/json']?.schema;
    const name = String(schema?.['$ref']).replace('#/components/schemas/', '');
    for (const body of document.components.schemas[name]?.examples ?? []) {
      const response = await service.request(method, path, { body });
      assert.ok(![400, 422].includes(response.status), response.text);
    }
  }
});

/** Operations and statuses that were seen so far: `listEmails 200`. */
const seen = new Set<string>();

/** Sends a request, and compares the response with the document. */
async function ask(
  operationId: string,
  ids: Record<string, string> = {},
  options: RequestOptions = {},
  by: Pick<Service, 'request'> = service,
): Promise<ApiResponse> {
  const operation = operations.find((one) => one.operationId === operationId);
  assert.ok(operation, operationId);
  const path = operation.path.replaceAll(
    /\{(\w+)\}/g,
    (_, name: string) => ids[name] ?? UNKNOWN_ID,
  );
  const response = await by.request(operation.method, path, options);
  const documented = operation.responses[response.status];
  assert.ok(documented, `${operationId} responded ${response.status}, which is not documented`);
  const type = response.headers.get('content-type')?.split(';')[0] ?? '';
  const schema = documented.content?.[type]?.schema;
  assert.ok(schema, `${operationId} responded with ${type}, which is not documented`);
  const value: unknown = type === 'application/json' ? response.body : response.text;
  const result = checkerOf(schema).safeParse(value);
  assert.ok(result.success, `${operationId} ${response.status}: ${result.error?.message}`);
  seen.add(`${operationId} ${response.status}`);
  return response;
}

test('responses about emails, keys, domains and projects are as documented', async () => {
  const headers = { 'idempotency-key': 'documented' };
  const to = ['delivered@simulator.test', 'bounced+openapi@simulator.test'];
  const body = { ...EMAIL, to, tags: [{ name: 'a', value: 'b' }], metadata: { c: 'd' } };
  const { body: sent } = await ask('sendEmail', {}, { body, headers });
  await ask('sendEmail', {}, { body, headers });
  const dry = await service.request('POST', '/v1/emails?dry_run=true', { body });
  assert.ok(checkerOf({ $ref: '#/components/schemas/DryRun' }).safeParse(dry.body).success);
  const permissive = { 'idempotency-key': 'batch', 'x-batch-validation': 'permissive' };
  const batch = { body: [body, { ...body, to: 'nobody' }], headers: permissive };
  await ask('sendEmailBatch', {}, batch);
  await ask('sendEmailBatch', {}, batch);
  await ask('getEmail', sent);
  await service.waitForStatus(sent.id, 'bounced');
  for (const id of [
    'getEmail',
    'listEmailEvents',
    'getEmailContent',
    'listEmails',
    'countEmails',
    'diagnoseEmail',
    'getEmailCaseFile',
    'inspectEmail',
    'listEmailWebhookDeliveries',
  ]) {
    await ask(id, sent);
  }
  const attachments = [{ filename: 'a.txt', content: 'YQ==' }];
  const { body: attaching } = await ask('sendEmail', {}, { body: { ...EMAIL, attachments } });
  await ask('inspectEmail', attaching);
  await ask('downloadEmailAttachment', { ...attaching, number: 1 });
  const scheduled_at = new Date(Date.now() + 3600_000).toISOString();
  const { body: later } = await ask('sendEmail', {}, { body: { ...EMAIL, scheduled_at } });
  const waiting = { body: { email_id: later.id } };
  for (const id of ['holdQueue', 'releaseQueue', 'retryQueue']) await ask(id, {}, waiting);
  const { body: drop } = await ask('dropQueue', {}, waiting);
  await ask('getQueue');
  await ask('getQueueProvider', { provider: 'google' });
  await ask('listRecipients');
  await ask('getRecipient', { address: 'bounced+openapi@simulator.test' });
  await ask('getRecipientLog', { address: 'bounced+openapi@simulator.test' });
  await ask('undoQueueDrop', drop);
  await ask('rescheduleEmail', later, { body: { scheduled_at } });
  await ask('cancelEmail', later);
  await ask('cancelEmails', {}, { body: { ids: [later.id] } });
  await ask('shareEmail', later, { body: { expires_in: 60 } });
  const { body: domain } = await ask('createDomain', {}, { body: { name: 'documented.test' } });
  await ask('updateDomain', domain, { body: { tls: 'enforced' } });
  for (const id of ['listDomains', 'getDomain', 'getDomainDmarc', 'verifyDomain'])
    await ask(id, domain);
  for (const id of ['rotateDomainDkim', 'cancelDomainDkimRotation']) await ask(id, domain);
  await ask('deleteDomain', domain);
  const expires_at = new Date(Date.now() + 60_000).toISOString();
  const { body: key } = await ask('createApiKey', {}, { body: { name: 'documented', expires_at } });
  await ask('getCurrentApiKey', {}, { key: key.key });
  await ask('updateApiKey', key, { body: { name: 'Documented' } });
  for (const id of ['listApiKeys', 'rotateApiKey', 'revokeApiKey']) await ask(id, key);
  const plain =
    'listEvents getStats listProjects getConnection getLimits getHealth getReadiness getReceiptKey';
  for (const id of plain.split(' ')) await ask(id);
  const request = await waitFor(async () => (await ask('listRequests')).body.data[0], {
    what: 'the changes to be in the API log',
  });
  await ask('getRequest', request);
});

test('responses about webhooks are as documented', async () => {
  await using receiver = await startReceiver();
  const url = receiver.url;
  const { body: webhook } = await ask('createWebhook', {}, { body: { url } });
  await service.send();
  const deliveries = await waitFor(
    async () => {
      const { body } = await ask('listWebhookDeliveries', webhook);
      return (
        body.data.some(({ status }: { status: string }) => status === 'delivered') && body.data
      );
    },
    { what: 'a delivery' },
  );
  const one = { id: webhook.id, delivery_id: deliveries[0].id };
  await ask('getWebhookDelivery', one);
  await ask('replayWebhookDelivery', one);
  await ask('replayWebhookDeliveries', webhook, { body: { ids: [one.delivery_id] } });
  await ask('getWebhookStatistics', webhook);
  const window = { since: '2026-01-01T00:00:00Z', until: '2036-01-01T00:00:00Z' };
  const { body: replay } = await ask('replayWebhook', one, { body: window });
  await ask('getWebhookReplay', { id: webhook.id, replay_id: replay.id });
  for (const id of ['testWebhook', 'rotateWebhookSecret', 'getWebhook', 'listWebhooks']) {
    await ask(id, webhook);
  }
  await ask('updateWebhook', webhook, { body: { status: 'disabled' } });
  await ask('deleteWebhook', webhook);
});

test('responses about templates are as documented', async () => {
  const body = {
    name: 'Hi',
    alias: 'hi',
    subject: 'Hi',
    text: '{{ a }}',
    variables: [{ name: 'a' }],
  };
  const { body: template } = await ask('createTemplate', {}, { body });
  await ask('previewTemplate', template, { body: { variables: { a: 'b' } } });
  await ask('translateTemplate', {}, { body: { syntax: 'handlebars', html: '{{a}}{{> b}}' } });
  await ask('updateTemplate', template, { body: { name: 'Hello', alias: null } });
  const version = { id: template.id, version: '1' };
  for (const id of ['publishTemplate', 'listTemplates', 'getTemplate', 'listTemplateVersions']) {
    await ask(id, template);
  }
  await ask('getTemplateVersion', version);
  await ask('deleteTemplate', template);
});

test('responses about suppressions are as documented', async () => {
  const { body: entry } = await ask('createSuppression', {}, { body: { address: 'a@b.test' } });
  await ask('createSuppression', {}, { body: { address: 'a@b.test' } });
  for (const id of ['listSuppressions', 'getSuppression', 'listSuppressionHistory']) {
    await ask(id, entry);
  }
  await ask('deleteSuppression', entry);
  const csv = { body: 'c@d.test\nnobody\n', headers: { 'content-type': 'text/csv' } };
  await ask('importSuppressions', {}, csv);
  await ask('exportSuppressions');
});

test('responses about sessions are as documented', async () => {
  const browser = new Browser(service);
  const asks = (id: string, ids = {}, body?: object) =>
    ask(id, ids, body === undefined ? {} : { body }, browser);
  await asks('getSetup');
  const token = tokenOf(service.readyLine.sign_in_url!);
  await asks('createOwner', {}, { token, ...OWNER });
  await asks('createOwner', {}, { token, ...OWNER });
  const { email, password } = OWNER;
  await asks('signIn', {}, { email, password: 'wrong password' });
  await asks('signIn', {}, { email, password });
  for (const id of ['getSession', 'listSessions', 'endOwnSession']) await asks(id);
  const { body: other } = await new Browser(service).signIn(OWNER);
  await asks('endOwnSession', other);
  await asks('confirmTotp', {}, { code: '000000' });
  const { body: totp } = await asks('beginTotp', {}, { password });
  await asks('confirmTotp', {}, { code: await currentCode(service, totp.secret) });
  await asks('beginTotp', {}, { password });
  await asks('getTotp');
  await asks('signIn', {}, { email, password });
  await asks('removeTotp', {}, { password });
  idp.accounts.set('owner', { email, email_verified: true });
  const { body: begun } = await asks('startOidcSignIn', {}, {});
  const response = await idp.authorize(begun.url, 'owner');
  await asks('signInWithOidc', {}, { response });
  await asks('signInWithOidc', {}, { response });
  const authenticator = new Authenticator();
  const options = { origin: 'https://mail.acme.test' };
  const { body: creation } = await asks('startPasskey', {}, { password });
  const added = { name: 'Phone', ...authenticator.create(creation, options) };
  const { body: passkey } = await asks('addPasskey', {}, added);
  await asks('addPasskey', {}, added);
  await asks('listPasskeys');
  const { body: wanted } = await asks('startPasskeySignIn', {}, {});
  await asks('signInWithPasskey', {}, authenticator.use(wanted, options));
  await asks('signInWithPasskey', {}, authenticator.use(wanted, options));
  await asks('removePasskey', passkey, { password });
  const changed = { current_password: password, password: 'a different passphrase' };
  await asks('changePassword', {}, changed);
  const { body: domain } = await asks('createDomain', {}, { name: 'published.test' });
  await asks('publishDomainRecords', domain, { dry_run: true });
  const { body: project } = await asks('createProject', {}, { name: 'Shop' });
  await asks('updateProject', project, { name: 'Store' });
  const jo = { email: 'jo@acme.test', role: 'viewer' };
  const { body: invitation } = await asks('createInvitation', {}, jo);
  await asks('createInvitation', {}, { ...jo, email });
  await asks('listInvitations');
  await asks('revokeInvitation', invitation);
  const { body: invited } = await asks('createInvitation', {}, jo);
  const joining = { token: tokenOf(invited.url), name: 'Jo', password };
  const { body: joined } = await ask(
    'acceptInvitation',
    {},
    { body: joining },
    new Browser(service),
  );
  await asks('previewEmail', { id: await service.send() });
  const { body: view } = await asks('saveView', {}, { name: 'Bounced', q: 'status:bounced' });
  await asks('listViews');
  await asks('deleteView', view);
  const until = new Date(Date.now() + 3_600_000).toISOString();
  await asks('snoozeFinding', { id: 'bounces' }, { until });
  await asks('listSnoozes');
  await asks('endSnooze', { id: 'bounces' });
  await asks('listOperatorConditions');
  await asks('getReconciliation');
  await operatorResponses(service, asks, project);
  await asks('listMembers');
  await asks('updateMember', joined.member, { role: 'admin' });
  await asks('removeMember', joined.member);
  await asks('listAuditEvents');
  await asks('endSession');
  const link = await service.cliJson('owner', 'reset', email);
  await asks('resetPassword', {}, { token: tokenOf(link.sign_in_url), password });
  await asks('endAllSessions');
});

test('failures of every operation are as documented', async () => {
  const { body: key } = await service.request('POST', '/v1/api-keys', {
    body: { name: 'sender', permission: 'sending_access' },
  });
  for (const { operationId, security, path, requestBody } of operations) {
    if (security?.length === 0) continue;
    await ask(operationId, {}, { key: null });
    if (!path.startsWith('/v1/emails') && !path.endsWith('/current')) {
      await ask(operationId, {}, { key: key.key });
    }
    if (path.includes('{')) await ask(operationId, {}, requestBody ? { body: {} } : {});
    if (requestBody === undefined) continue;
    await ask(operationId, {}, { body: '{' });
    await ask(operationId, {}, { body: { no_such_field: true } });
    await ask(operationId, {}, { body: 'a', headers: { 'content-type': 'text/plain' } });
  }
  await ask('sendEmail', {}, { body: { ...EMAIL, from: 'a@other.test' } });
  await ask('createDomain', {}, { body: { name: 'acme.test' } });
});

test('every documented success occurs in these tests', () => {
  const documented = operations.flatMap(({ operationId, responses }) =>
    Object.keys(responses)
      .filter((status) => status.startsWith('2'))
      .map((status) => `${operationId} ${status}`),
  );
  assert.deepEqual(
    documented.filter((one) => !seen.has(one)),
    [],
  );
});

test('the description of the API is sent compressed, and not again to who has it', async () => {
  for (const path of ['/openapi.json', '/llms.txt']) {
    const first = await fetch(service.url + path);
    assert.equal(first.headers.get('content-encoding'), 'gzip', path);
    const etag = first.headers.get('etag') ?? '';
    assert.ok((await first.text()).length > 10_000, path);
    const again = await fetch(service.url + path, { headers: { 'if-none-match': etag } });
    assert.equal(again.status, 304, path);
  }
});
