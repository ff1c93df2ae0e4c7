/**
 * Reads from the file of a migration how it affects existing tables: for `letterhaus upgrade-check`, and for the backup
 * before a migration that needs one (backup/before-migration.ts).
 *
 * Migrations are in a plain style, one statement for each change, so no parser is needed. effects.test.ts compares the
 * result for each file with the locks and rewritten tables of PostgreSQL.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** `everything`: reads and writes of the table wait until the migration has ended; `writes`: only writes wait. */
export type Blocked = 'everything' | 'writes' | 'nothing';

export type TableEffect = {
  table: string;
  blocks: Blocked;
  /** All rows are written to a new file, with their indexes. */
  rewrites: boolean;
  /** An index is built over the rows, or a constraint is checked for each row. */
  readsAll: boolean;
  changesRows: boolean;
};

export type Migration = {
  version: number;
  file: string;
  about: string;
  /** Why a backup is made first, from the line `-- Needs a backup first: <reason>`; null: none is made. */
  backupReason: string | null;
  /** Code that does not know this migration stops before the next one; null: it continues. */
  schemaRequired: number | null;
  effects: TableEffect[];
};

const FILE = /^(\d+)\.do\..*\.sql$/;

export function migrationsAfter(version: number, folder: string): Migration[] {
  return readdirSync(folder)
    .flatMap((file) => {
      const number = Number(FILE.exec(file)?.[1] ?? 0);
      return number > version ? [{ file, number }] : [];
    })
    .toSorted((one, other) => one.number - other.number)
    .map(({ file, number }) =>
      readMigration(number, file, readFileSync(join(folder, file), 'utf8')),
    );
}

export function readMigration(version: number, file: string, sql: string): Migration {
  const code = withoutComments(sql);
  const required = /\bset schema_required = (?:greatest\(schema_required, )?(\d+)/.exec(code)?.[1];
  return {
    version,
    file,
    about: firstSentence(sql),
    backupReason: /^-- Needs a backup first: (.+?)\.?$/m.exec(sql)?.[1] ?? null,
    schemaRequired: required === undefined ? null : Number(required),
    effects: effectsOf(statementsOf(code)),
  };
}

function firstSentence(sql: string): string {
  const [comment = ''] = /^(?:--.*\n)+/.exec(sql) ?? [];
  const text = comment.replaceAll(/^-- ?/gm, '').replaceAll(/\s+/g, ' ').trim();
  return /^.*?[.:](?= [A-Z]|$)/.exec(text)?.[0].replace(/:$/, '.') ?? text;
}

/** Removes comments, and bodies of functions, which do nothing until they are called. */
function withoutComments(sql: string): string {
  return sql
    .replaceAll(/--.*$/gm, '')
    .replaceAll(/\bas\s+\$\$.*?\$\$/gs, 'as body')
    .replaceAll(/\$\$/g, ';')
    .replaceAll(/\s+/g, ' ')
    .toLowerCase();
}

function statementsOf(code: string): string[] {
  return code.split(';').map((statement) => statement.trim());
}

function effectsOf(statements: readonly string[]): TableEffect[] {
  const effects = new Map<string, TableEffect>();
  const created = new Set<string>();
  for (const statement of statements) {
    const table = /^create (?:unlogged )?table (?:if not exists )?(\w+)/.exec(statement)?.[1];
    if (table !== undefined) created.add(table);
    for (const found of effectsOfStatement(statement)) {
      if (created.has(found.table)) continue;
      const before = effects.get(found.table);
      effects.set(found.table, before === undefined ? found : together(before, found));
    }
  }
  return [...effects.values()];
}

const STRENGTH: Readonly<Record<Blocked, number>> = { nothing: 0, writes: 1, everything: 2 };

function together(one: TableEffect, other: TableEffect): TableEffect {
  return {
    table: one.table,
    blocks: STRENGTH[one.blocks] < STRENGTH[other.blocks] ? other.blocks : one.blocks,
    rewrites: one.rewrites || other.rewrites,
    readsAll: one.readsAll || other.readsAll,
    changesRows: one.changesRows || other.changesRows,
  };
}

type Found = Partial<Omit<TableEffect, 'table'>>;

const effect = (table: string, found: Found): TableEffect => ({
  table,
  blocks: 'nothing',
  rewrites: false,
  readsAll: false,
  changesRows: false,
  ...found,
});

function effectsOfStatement(statement: string): TableEffect[] {
  const effects = [...statement.matchAll(/ references (\w+)/g)].map(([, table]) =>
    effect(table!, { blocks: 'writes' }),
  );
  const [, altered, actions = ''] = /^alter table (?:only )?(\w+) (.*)$/.exec(statement) ?? [];
  if (altered !== undefined) effects.push(effect(altered, effectOfActions(actions)));
  for (const [pattern, found] of WHOLE_STATEMENTS) {
    const names = pattern.exec(statement)?.[1];
    for (const table of names?.split(/, ?/) ?? []) effects.push(effect(table, found));
  }
  return effects;
}

const WHOLE_STATEMENTS: readonly (readonly [RegExp, Found])[] = [
  [/^create (?:unique )?index .*?\bon (?:only )?(\w+)/, { blocks: 'writes', readsAll: true }],
  [/^create (?:constraint )?trigger .*? on (\w+)/, { blocks: 'writes' }],
  [/^drop table (?:if exists )?([\w, ]+?)(?: cascade)?$/, { blocks: 'everything' }],
  [/^truncate (?:table )?([\w, ]+)/, { blocks: 'everything' }],
  [/^lock table ([\w, ]+?) in access exclusive mode/, { blocks: 'everything' }],
  [/^(?:update|insert into|delete from) (\w+)/, { changesRows: true }],
];

const REWRITES =
  /\balter (?:column )?\w+ (?:set data )?type |\bset (?:un)?logged\b|\bgenerated always as\b.*\bstored\b|\bdefault (?:gen_random_uuid|clock_timestamp|random|app_now)\(/;
const READS_ALL =
  /\badd (?:constraint \w+ )?(?:primary key|unique|check)\b|\bset not null\b|\bcheck \(/;
/** Foreign keys and VALIDATE CONSTRAINT check rows under a lock that allows reads. */
const FOREIGN_KEY = /^add (?:constraint \w+ )?foreign key /;
const VALIDATES = /^validate constraint /;

function effectOfActions(actions: string): Found {
  if (VALIDATES.test(actions)) return { readsAll: true };
  const isChecked = !actions.includes(' not valid');
  if (FOREIGN_KEY.test(actions)) return { blocks: 'writes', readsAll: isChecked };
  return {
    blocks: 'everything',
    rewrites: REWRITES.test(actions),
    readsAll: READS_ALL.test(actions) && isChecked,
  };
}
