/**
 * A database that explains every statement before it runs it: the rows and pages that its real plan reads. The hot
 * connections have one generic plan, made once and kept. The others plan for their values. `forgetPlans` makes a
 * connection like one that was just opened.
 */
import pg from 'pg';
import type { SessionSettings } from '../../src/database/server/connect.ts';
import { openSession } from '../../src/database/server/watched-session.ts';
import {
  clientQueries,
  COMMON_SETTINGS,
  type Database,
  type DatabaseAddress,
  HOT_SETTINGS,
  type Queryable,
  type Statement,
} from '../../src/database/database.ts';

/** The reads of one statement. */
export type Reading = {
  name: string | undefined;
  text: string;
  /** Rows that scans read, whether or not they were returned. */
  rows: number;
  /** Pages that scans touched. */
  pages: number;
  /** Pages that the whole statement touched, including its writes and their indexes. */
  pagesInAll: number;
  lookups: Lookup[];
};

/** A condition that finds rows by an index. */
export type Lookup = { index: string; condition: string };

type PlanNode = {
  'Node Type': string;
  'Relation Name'?: string;
  'Index Name'?: string;
  'Index Cond'?: string;
  'CTE Name'?: string;
  'Subplan Name'?: string;
  'Actual Rows'?: number;
  'Actual Loops'?: number;
  'Rows Removed by Filter'?: number;
  'Rows Removed by Index Recheck'?: number;
  'Shared Hit Blocks'?: number;
  'Shared Read Blocks'?: number;
  Plans?: PlanNode[];
};

export type ExplainingDatabase = AsyncDisposable & {
  db: Database;
  /** The reads of every statement so far. */
  readings: Reading[];
  forgetPlans(): Promise<void>;
};

/** The compiler reports a renamed pool here. */
type Pool = keyof Pick<Database, 'accepting' | 'settling' | 'heartbeat' | 'webhooks' | 'inbound'>;

const READER_SETTINGS = { plan_cache_mode: 'force_custom_plan' };

export async function explainingDatabase(
  address: DatabaseAddress,
  role: string | null,
): Promise<ExplainingDatabase> {
  const readings: Reading[] = [];
  const open = (settings: SessionSettings) =>
    Explaining.open(address, { role, settings, readings });
  const [hot, reader] = [await open(HOT_SETTINGS), await open(READER_SETTINGS)];
  const pools: Record<Pool, Queryable> = {
    accepting: hot,
    settling: hot,
    heartbeat: hot,
    webhooks: hot,
    inbound: hot,
  };
  const db = {
    ...pools,
    query: (...args: Parameters<Queryable['query']>) => reader.query(...args),
    transaction: <Result>(work: (tx: Queryable) => Promise<Result>) => reader.transaction(work),
  };
  return {
    db: db as unknown as Database,
    readings,
    forgetPlans: async () => void (await Promise.all([hot.forgetPlans(), reader.forgetPlans()])),
    [Symbol.asyncDispose]: async () => void (await Promise.all([hot.end(), reader.end()])),
  };
}

type Options = { role: string | null; settings: SessionSettings; readings: Reading[] };

type Prepared = {
  name: string;
  types: string[];
};

const IS_EXPLAINED = /^\s*(?:with|select|insert|update|delete)\b/i;

class Explaining implements Queryable {
  readonly #client: pg.Client;
  readonly #readings: Reading[];
  readonly #prepared = new Map<string, Prepared>();
  /** Statements run one after the other, as on one connection. */
  #last: Promise<unknown> = Promise.resolve();

  static async open(address: DatabaseAddress, options: Options): Promise<Explaining> {
    const role: SessionSettings = options.role === null ? {} : { role: options.role };
    const settings = { ...role, ...COMMON_SETTINGS, ...options.settings };
    const client = await openSession(address, { name: 'explaining', settings, timeoutMs: 5_000 });
    return new Explaining(client, options.readings);
  }

  constructor(client: pg.Client, readings: Reading[]) {
    this.#client = client;
    this.#readings = readings;
  }

  query<Row extends object>(statement: Statement | string, values: readonly unknown[] = []) {
    return this.#inTurn(async () => {
      const execution = await this.#executionOf(statement, values);
      await this.#client.query('begin');
      try {
        await this.#explain(statement, execution);
      } finally {
        await this.#client.query('rollback');
      }
      return clientQueries(this.#client).query<Row>(execution);
    });
  }

  transaction<Result>(work: (tx: Queryable) => Promise<Result>): Promise<Result> {
    return this.#inTurn(async () => {
      await this.#client.query('begin');
      const result = await work({ query: (statement, values) => this.#within(statement, values) });
      await this.#client.query('commit');
      return result;
    });
  }

  async forgetPlans(): Promise<void> {
    await this.#client.query('discard plans');
  }

  end(): Promise<void> {
    return this.#client.end();
  }

  async #within<Row extends object>(
    statement: Statement | string,
    values: readonly unknown[] = [],
  ) {
    const execution = await this.#executionOf(statement, values);
    await this.#client.query('savepoint explaining');
    await this.#explain(statement, execution);
    await this.#client.query('rollback to explaining');
    return clientQueries(this.#client).query<Row>(execution);
  }

  #inTurn<Result>(work: () => Promise<Result>): Promise<Result> {
    const turn = this.#last.then(work);
    this.#last = turn.catch(() => {});
    return turn;
  }

  /** Returns the statement as a prepared one, so that it runs with the plan that was explained. */
  async #executionOf(statement: Statement | string, values: readonly unknown[]): Promise<string> {
    const { text } = partsOf(statement);
    if (!IS_EXPLAINED.test(text)) return text;
    const { name, types } = await this.#prepare(text);
    const literals: string[] = [];
    for (const [n, value] of values.entries()) literals.push(await this.#literal(value, types[n]!));
    return `execute ${name}${values.length > 0 ? `(${literals.join(', ')})` : ''}`;
  }

  async #explain(statement: Statement | string, execution: string): Promise<void> {
    const { name, text } = partsOf(statement);
    if (!IS_EXPLAINED.test(text)) return;
    const { rows } = await this.#client.query<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(
      `explain (analyze, buffers, timing off, format json) ${execution}`,
    );
    const plan = rows[0]!['QUERY PLAN'][0].Plan;
    const written = { pagesInAll: pagesOf(plan), lookups: lookupsOf(plan) };
    this.#readings.push({ name, text, ...readBy(plan), ...written });
  }

  async #prepare(text: string): Promise<Prepared> {
    const known = this.#prepared.get(text);
    if (known !== undefined) return known;
    const name = `statement_${this.#prepared.size}`;
    await this.#client.query(`prepare ${name} as ${text}`);
    const { rows } = await this.#client.query<Pick<Prepared, 'types'>>(
      'select parameter_types::text[] as types from pg_prepared_statements where name = $1',
      [name],
    );
    const prepared = { name, types: rows[0]!.types };
    this.#prepared.set(text, prepared);
    return prepared;
  }

  /** PostgreSQL formats values that are sent as binary arrays (database/parameters/binary-array.ts). */
  async #literal(value: unknown, type: string): Promise<string> {
    if (!Buffer.isBuffer(value) || !type.endsWith('[]')) return literal(value);
    const { rows } = await this.#client.query<{ text: string }>(
      `select $1::${type}::text as text`,
      [value],
    );
    return literal(rows[0]!.text);
  }
}

function partsOf(statement: Statement | string): Statement {
  return typeof statement === 'string' ? { text: statement } : statement;
}

function literal(value: unknown): string {
  return value === null || value === undefined ? 'null' : pg.escapeLiteral(textOf(value));
}

/** Formats a value like pg. */
function textOf(value: unknown): string {
  if (value instanceof Date) return value.toISOString();
  if (Buffer.isBuffer(value)) return `\\x${value.toString('hex')}`;
  if (Array.isArray(value)) return `{${value.map(elementOf).join(',')}}`;
  if (typeof value === 'string' || typeof value === 'number') return String(value);
  return JSON.stringify(value);
}

function elementOf(value: unknown): string {
  return value === null || value === undefined ? 'null' : JSON.stringify(textOf(value));
}

/** Sums over the scans of a plan. */
function readBy(node: PlanNode): { rows: number; pages: number } {
  const sum = isScan(node) ? scannedBy(node) : { rows: 0, pages: 0 };
  for (const child of node.Plans ?? []) {
    const { rows, pages } = readBy(child);
    sum.rows += rows;
    sum.pages += pages;
  }
  return sum;
}

function isScan(node: PlanNode): boolean {
  const ofTable = node['Relation Name'] !== undefined || node['Index Name'] !== undefined;
  return ofTable && node['Node Type'].endsWith('Scan');
}

function scannedBy(node: PlanNode): { rows: number; pages: number } {
  const each =
    (node['Actual Rows'] ?? 0) +
    (node['Rows Removed by Filter'] ?? 0) +
    (node['Rows Removed by Index Recheck'] ?? 0);
  const pages = (node.Plans ?? []).reduce((own, child) => own - touchedBy(child), touchedBy(node));
  return { rows: Math.round(each * (node['Actual Loops'] ?? 0)), pages: Math.max(0, pages) };
}

/** Sums over the node and all nodes below it. */
function touchedBy(node: PlanNode): number {
  return (node['Shared Hit Blocks'] ?? 0) + (node['Shared Read Blocks'] ?? 0);
}

/** A data-changing `with` that nothing reads runs after the rest, and the top node does not count it. */
function pagesOf(top: PlanNode): number {
  const nodes = allOf(top);
  const read = new Set(nodes.map((node) => node['CTE Name']));
  const apart = nodes.filter((node) => {
    const [, cte] = /^CTE (.*)$/.exec(node['Subplan Name'] ?? '') ?? [];
    return cte !== undefined && node['Node Type'] === 'ModifyTable' && !read.has(cte);
  });
  return [top, ...apart].reduce((sum, node) => sum + touchedBy(node), 0);
}

function lookupsOf(plan: PlanNode): Lookup[] {
  return allOf(plan).flatMap(({ 'Index Name': index, 'Index Cond': condition }) =>
    index === undefined || condition === undefined ? [] : [{ index, condition }],
  );
}

function allOf(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(allOf)];
}
