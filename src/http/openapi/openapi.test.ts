/**
 * The OpenAPI document is that of the schemas, valid by a linter of others, and complete.
 * test/api/openapi-contract.test.ts compares it with responses.
 */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { createConfig, lintFromString } from '@redocly/openapi-core';
import { generateOpenApi } from './openapi.ts';

type Body = { content?: Record<string, { example?: unknown }> };
type Operation = {
  operationId: string;
  summary: string;
  description?: string;
  security?: object[];
  requestBody?: Body;
  responses: Record<string, Body>;
};
type Document = {
  openapi: string;
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, { properties: Record<string, object> }> };
};

const document = (await generateOpenApi()) as Document;
const operations = Object.values(document.paths).flatMap((path) => Object.values(path));

test('docs/openapi.json matches the schemas (else: npm run openapi)', async () => {
  const file = await readFile(new URL('../../../docs/openapi.json', import.meta.url), 'utf8');
  assert.deepEqual(JSON.parse(file), document);
});

test('every operation has a unique name and a description', () => {
  const names = operations.map((operation) => operation.operationId);
  assert.equal(new Set(names).size, names.length);
  for (const { operationId, summary } of operations) assert.ok(operationId && summary);
});

test('it is valid OpenAPI by the rules of a linter that others use', async () => {
  // Health and readiness respond without parameters, so they have no 4xx responses.
  const rules = { 'operation-4xx-response': 'off' as const };
  const config = await createConfig({ extends: ['recommended'], rules });
  const problems = await lintFromString({ source: JSON.stringify(document), config });
  assert.deepEqual(
    problems.map(({ ruleId, message, location }) => [ruleId, message, location[0]?.pointer]),
    [],
  );
});

test('every operation is described, and every body of a request or a success has an example', () => {
  const bodies = operations.flatMap(({ requestBody, responses }) => [
    requestBody,
    ...Object.entries(responses).flatMap(([status, body]) => (status < '300' ? [body] : [])),
  ]);
  const media = bodies.flatMap((body) => Object.values(body?.content ?? {}));
  assert.ok(media.length > 50);
  for (const { example } of media) assert.ok(example !== undefined && example !== null);
  for (const { operationId, description } of operations) assert.ok(description, operationId);
});

test('every reference exists, and every component is used', () => {
  const text = JSON.stringify(document);
  const names = [...text.matchAll(/#\/components\/schemas\/(\w+)/g)].map((match) => match[1]);
  assert.deepEqual(new Set(names), new Set(Object.keys(document.components.schemas)));
});

test('every endpoint of the interface is described', () => {
  const described = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  );
  const endpoints = [
    'POST /v1/emails',
    'GET /v1/emails',
    'GET /v1/emails/{id}',
    'GET /v1/domains',
    'POST /v1/domains',
    'POST /v1/domains/{id}/verify',
    'GET /v1/projects',
    'GET /v1/webhooks',
    'POST /v1/webhooks',
  ];
  for (const endpoint of endpoints) assert.ok(described.includes(endpoint), endpoint);
});

test('requests have no further fields, and responses may have them', () => {
  const { EmailCreation, Email } = document.components.schemas;
  assert.ok(EmailCreation && Email);
  assert.ok(!('additionalProperties' in Email));
  assert.ok('additionalProperties' in EmailCreation);
  assert.doesNotMatch(JSON.stringify(document), /"x-[^"]*":/);
});

test('only endpoints about the service itself, and the first ones of a session, need no credential', () => {
  const open = operations.filter((operation) => operation.security?.length === 0);
  assert.deepEqual(
    open.map((operation) => operation.operationId),
    [
      'getReceiptKey',
      'getSetup',
      'signIn',
      'createOwner',
      'resetPassword',
      'startOidcSignIn',
      'signInWithOidc',
      'startPasskeySignIn',
      'signInWithPasskey',
      'acceptInvitation',
      'getHealth',
      'getReadiness',
    ],
  );
});
