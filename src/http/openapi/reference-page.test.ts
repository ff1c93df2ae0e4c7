/** The API reference, as browsers and language models get it. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import {
  REFERENCE_HEADERS,
  type ReferenceSource,
  renderLlmsText,
  renderReference,
} from './reference-page.ts';

const source = JSON.parse(
  await readFile(new URL('../../../docs/openapi.json', import.meta.url), 'utf8'),
) as ReferenceSource;
const operations = Object.entries(source.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ ...operation, method, path })),
);

test('the page has every operation, once in the menu and once with its fields and examples', () => {
  const page = renderReference(source);
  for (const { operationId } of operations) {
    assert.equal(page.split(` id="${operationId}"`).length, 2, operationId);
    assert.equal(page.split(`<li><a href="#${operationId}"`).length, 2, operationId);
  }
  assert.match(page, /<code>attachments\[\]\.filename<\/code>/);
  assert.match(page, /curl -X POST &#39;http:\/\/127\.0\.0\.1:3000\/v1\/emails&#39;/);
});

test('the page needs no script and nothing from elsewhere, and permits neither', () => {
  const page = renderReference(source);
  assert.doesNotMatch(page, /<script|<link|<img|<iframe|@import|url\(/);
  for (const [, target = ''] of page.matchAll(/(?:href|src)="([^"]*)"/g)) {
    assert.match(target, /^[#/]/);
  }
  assert.match(
    REFERENCE_HEADERS['content-security-policy'],
    /^default-src 'none'; style-src 'sha256-/,
  );
});

test('markup in a description is shown as text', () => {
  const [path = ''] = Object.keys(source.paths);
  const hostile = structuredClone(source);
  for (const operation of Object.values(hostile.paths[path]!)) {
    operation.summary = '<script>alert(1)</script>';
    operation.description = '`<img src=x>`';
  }
  const page = renderReference(hostile);
  assert.doesNotMatch(page, /<script|<img/);
  assert.match(page, /&#60;script&#62;/);
});

test('the text for language models has every operation with its description', () => {
  const text = renderLlmsText(source);
  assert.match(text, /^# Letterhaus\n\n> Letterhaus sends/);
  for (const { method, path, summary } of operations) {
    assert.ok(text.includes(`- ${method.toUpperCase()} ${path}: ${summary}.`), path);
  }
});
