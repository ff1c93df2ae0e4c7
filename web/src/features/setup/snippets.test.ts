/** The programs of the page Setup are those of the document, and their parts are where they belong. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { LANGUAGES, snippetOf } from './snippets.ts';

const DOCUMENTED = {
  url: 'https://mail.example.com',
  key: 'lh_test_YOUR_KEY',
  from: 'Acme <hello@acme.example>',
  to: 'delivered@simulator.test',
  smtp: { host: 'mail.example.com', port: 587 },
};

test('docs/clients.md has the same program for every language', () => {
  const document = readFileSync(new URL('../../../../docs/clients.md', import.meta.url), 'utf8');
  for (const [language, name] of LANGUAGES) {
    assert.ok(document.includes(snippetOf(language, DOCUMENTED)), name);
  }
});

test('without a port for programs, the page says what to set', () => {
  assert.match(snippetOf('smtp', { ...DOCUMENTED, smtp: null }), /LETTERHAUS_SUBMISSION_PORTS/);
  const implicit = { ...DOCUMENTED, smtp: { host: 'mail.example.com', port: 465 } };
  assert.match(snippetOf('smtp', implicit), /^curl smtps:\/\/mail\.example\.com:465/);
});
