/** Every variable of the service has its group on the page Settings. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { readConfig } from '../../../../src/config/config.ts';
import { groupsOf } from './variable-groups.ts';

const outcome = readConfig({ LETTERHAUS_DATA_DIR: '/nonexistent/letterhaus' });
assert.ok(outcome.ok);
const VARIABLES = outcome.config.variables.map(({ name }) => ({
  object: 'variable' as const,
  name,
  is_set: false,
  is_hidden: false,
  value: null,
}));

test('the groups have every variable once, and only those for tests and commands are others', () => {
  const groups = groupsOf(VARIABLES);
  const names = groups.flatMap(({ variables }) => variables.map(({ name }) => name));
  assert.deepEqual(names.toSorted(), VARIABLES.map(({ name }) => name).toSorted());
  const others = groups.find(({ title }) => title === 'Others')?.variables ?? [];
  assert.ok(others.length < VARIABLES.length / 5, others.map(({ name }) => name).join(' '));
});

test('each group is a section of docs/configuration.md', () => {
  const document = readFileSync(
    new URL('../../../../docs/configuration.md', import.meta.url),
    'utf8',
  );
  const sections = [...document.matchAll(/^## (.+)$/gm)].map(([, title = '']) =>
    title.toLowerCase().replaceAll(' ', '-'),
  );
  for (const { section } of groupsOf(VARIABLES)) {
    if (section !== '') assert.ok(sections.includes(section), section);
  }
});

test('a search finds by name and by group', () => {
  const found = groupsOf(VARIABLES, 'backup');
  assert.ok(found.some(({ title }) => title === 'Backups'));
  assert.deepEqual(
    groupsOf(VARIABLES, 'hostname').flatMap(({ variables }) => variables.map(({ name }) => name)),
    ['LETTERHAUS_HOSTNAME'],
  );
});
