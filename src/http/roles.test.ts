/** The table of least roles is compared with the operations of the OpenAPI document. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { LEAST_ROLES, KEY_ONLY_OPERATIONS, ORGANIZATION_OPERATIONS } from './roles.ts';

type Operation = { operationId: string; security?: object[] };
type Document = { paths: Record<string, Record<string, Operation>> };

const file = new URL('../../docs/openapi.json', import.meta.url);
const { paths } = JSON.parse(await readFile(file, 'utf8')) as Document;
const operations = Object.values(paths).flatMap((methods) => Object.entries(methods));

test('every operation has the least role that it needs, or takes a key only, or nothing', () => {
  const known = new Set([...LEAST_ROLES.keys(), ...KEY_ONLY_OPERATIONS]);
  const needing = operations
    .map(([, operation]) => operation)
    .filter(({ security }) => security?.length !== 0)
    .map(({ operationId }) => operationId);
  assert.deepEqual(new Set(needing), known);
});

test('what needs a session and more than the role viewer concerns the organization', () => {
  const bySession = operations
    .map(([, operation]) => operation)
    .filter(({ security }) => security?.every((one) => 'sessionCookie' in one) && security.length)
    .map(({ operationId }) => operationId)
    .filter((operation) => LEAST_ROLES.get(operation) !== 'viewer')
    // Only members look at findings, which are those of a project.
    .filter((operation) => !/Snooze|snooze/.test(operation));
  assert.ok(bySession.length > 20);
  for (const operation of bySession) assert.ok(ORGANIZATION_OPERATIONS.has(operation), operation);
});

/** Operations that change nothing, or only what belongs to the member alone. */
const VIEWER_OPERATIONS = [
  'saveView',
  'deleteView',
  'previewTemplate',
  'translateTemplate',
  'endSession',
  'endAllSessions',
  'endOwnSession',
  'changePassword',
  'beginTotp',
  'confirmTotp',
  'removeTotp',
  'startPasskey',
  'addPasskey',
  'removePasskey',
];

test('a viewer changes nothing', () => {
  const changing = operations
    .filter(([method]) => method !== 'get')
    .map(([, { operationId }]) => operationId)
    .filter((operation) => LEAST_ROLES.get(operation) === 'viewer');
  assert.deepEqual(new Set(changing), new Set(VIEWER_OPERATIONS));
});
