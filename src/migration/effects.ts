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
export type BlockedAccess = 'everything' | 'writes' | 'nothing';

export type TableEffect = {
  table: string;
  blocks: BlockedAccess;
  /** All rows are written to a new file, with their indexes. */
  rewrites: boolean;
  /** An index is built over the rows, or a constraint is checked for each row. */
  readsAll: boolean;
  changesRows: boolean;
};

export type Migration = {
  version: number;
  file: string;
  summary: string;
  /** Why a backup is made first, from the line `-- Needs a backup first: <reason>`, or null when none is made. */
  backupReason: string | null;
  /** Code that does not know this migration stops before the next one, or continues when this is null. */
  schemaRequired: number | null;
  effects: TableEffect[];
};

const MIGRATION_FILE = /^(\d+)\.do\..*\.sql$/;

export function readMigrationsAfter(version: number, folder: string): Migration[] {
  return readdirSync(folder)
    .flatMap((file) => {
      const number = Number(MIGRATION_FILE.exec(file)?.[1] ?? 0);
      return number > version ? [{ file, number }] : [];
    })
    .toSorted((one, other) => one.number - other.number)
    .map(({ file, number }) =>
      parseMigration(number, file, readFileSync(join(folder, file), 'utf8')),
    );
}

export function parseMigration(version: number, file: string, sql: string): Migration {
  const code = withoutComments(sql);
  const required = /\bset schema_required = (?:greatest\(schema_required, )?(\d+)/.exec(code)?.[1];
  return {
    version,
    file,
    summary: firstSentence(sql),
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
      effects.set(found.table, before === undefined ? found : combine(before, found));
    }
  }
  return [...effects.values()];
}

const BLOCKED_RANK: Readonly<Record<BlockedAccess, number>> = {
  nothing: 0,
  writes: 1,
  everything: 2,
};

function combine(first: TableEffect, second: TableEffect): TableEffect {
  return {
    table: first.table,
    blocks: BLOCKED_RANK[first.blocks] < BLOCKED_RANK[second.blocks] ? second.blocks : first.blocks,
    rewrites: first.rewrites || second.rewrites,
    readsAll: first.readsAll || second.readsAll,
    changesRows: first.changesRows || second.changesRows,
  };
}

type EffectFlags = Partial<Omit<TableEffect, 'table'>>;

const createEffect = (table: string, found: EffectFlags): TableEffect => ({
  table,
  blocks: 'nothing',
  rewrites: false,
  readsAll: false,
  changesRows: false,
  ...found,
});

function effectsOfStatement(statement: string): TableEffect[] {
  const effects = [...statement.matchAll(/ references (\w+)/g)].map(([, table]) =>
    createEffect(table!, { blocks: 'writes' }),
  );
  const [, altered, actions = ''] = /^alter table (?:only )?(\w+) (.*)$/.exec(statement) ?? [];
  if (altered !== undefined) effects.push(createEffect(altered, effectOfActions(actions)));
  for (const [pattern, found] of EFFECTS_BY_STATEMENT) {
    const names = pattern.exec(statement)?.[1];
    for (const table of names?.split(/, ?/) ?? []) effects.push(createEffect(table, found));
  }
  return effects;
}

const EFFECTS_BY_STATEMENT: readonly (readonly [RegExp, EffectFlags])[] = [
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

function effectOfActions(actions: string): EffectFlags {
  if (VALIDATES.test(actions)) return { readsAll: true };
  const isChecked = !actions.includes(' not valid');
  if (FOREIGN_KEY.test(actions)) return { blocks: 'writes', readsAll: isChecked };
  return {
    blocks: 'everything',
    rewrites: REWRITES.test(actions),
    readsAll: READS_ALL.test(actions) && isChecked,
  };
}
