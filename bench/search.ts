/**
 * `npm run bench -- search`: measures searches by parts of words over HTTP, with a million stored emails by default.
 * SQL fills the tables with mail of eleven weeks (search-fill.ts). Then one worker answers one search after the other.
 * A search is measured as its first page, its tenth page and its counts, each again and again after a first request.
 *
 * `--data DIR` keeps the data directory, and starts on it without filling if it is full already.
 */
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { newId } from '../src/database/ids.ts';
import { type ApiResponse, type Service, startService } from '../test/support/service.ts';
import { median, show } from './numbers.ts';
import { loadNow } from './machine.ts';
import { usesOf } from './parts/processes.ts';
import { alignColumns } from './report.ts';
import {
  fillSearchedMail,
  type Mail,
  makeBlocks,
  rareEmailOf,
  thousands,
  withoutMaintenance,
} from './search-fill.ts';

export type SearchOptions = {
  emails: number;
  /** Requests of each kind, after a first one. */
  rounds: number;
  /** Folder that keeps the data; null: a temporary one. */
  data: string | null;
};

const LIMIT = 25;
const PAGES = 10;

type Search = {
  name: string;
  q: string;
  /** The exact number of emails with it, if that is known. */
  hits?: number;
};

/** Rare texts are those of an email with a third of the mail before it. */
const searchesOf = (count: number): Search[] => {
  const rare = rareEmailOf(count);
  return [
    { name: 'no hit, rare terms', q: 'xylophonwerk', hits: 0 },
    { name: 'domain of no email', q: 'fjordline-shipping.example', hits: 0 },
    { name: 'one order number', q: rare.subject, hits: 1 },
    { name: 'part of a Message-ID', q: rare.messageId.slice(0, 12), hits: 1 },
    { name: 'whole Message-ID', q: `<${rare.messageId}>`, hits: 1 },
    { name: 'frequent word', q: 'shipped' },
    { name: 'family name, one email in 40', q: 'lindqvist' },
    { name: 'part of an address', q: 'anna.berg' },
    { name: 'company domain', q: rare.company },
    { name: 'part of a company domain', q: 'company-1a2' },
    { name: 'two words, both frequent', q: 'password gmail' },
    { name: 'two words, one frequent', q: 'password lindqvist' },
    { name: 'two words of no email', q: 'password parcel' },
    { name: 'three words', q: 'shipped gmx.net anna.berg' },
    { name: 'subject and status', q: 'subject:invoice status:bounced' },
    { name: 'subject and part of an address', q: 'subject:invoice to:anna.berg' },
    { name: 'frequent tag', q: 'tag:kind:password' },
    { name: 'rare tag', q: `tag:campaign:${rare.campaign}` },
    { name: 'reply: of most emails', q: 'reply:queued' },
    { name: 'reply: of one email', q: `reply:"${rare.reply}"` },
    { name: 'reply: without a hit', q: 'reply:"nothing like it"' },
    { name: 'server: of one email in four', q: 'server:mx3.' },
    { name: 'server: of few emails', q: `server:${rare.company}` },
  ];
};

/** @returns the table as text */
export async function measureSearch(
  { emails, rounds, data }: SearchOptions,
  say: (line: string) => void,
): Promise<string> {
  const kept = data === null ? null : keptIn(resolve(data));
  await using service = await startService({
    database: 'own',
    env: { LETTERHAUS_LOG: 'warn' },
    ...(kept && { dataDir: kept.dataDir }),
  });
  try {
    const mail = await withoutMaintenance(service.address(), () =>
      fill(service, { emails, say, kept }),
    );
    // Otherwise maintenance reads all mail once, as after an upgrade.
    await service.sql('delete from earlier_addresses');
    const lines = await measureAll(service, mail, { rounds, say });
    return `${lines}\n\n${await sizesOf(service, mail)}\n`;
  } finally {
    await service.stop();
  }
}

/** The kept folder, and which steps of filling it are done. */
type Kept = { dataDir: string; file: string; state: Partial<State> };
type State = { mail: Mail; isFilled: boolean; hasBlocks: boolean };

function keptIn(folder: string): Kept {
  mkdirSync(folder, { recursive: true });
  const file = join(folder, 'search.json');
  const state = existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as State) : {};
  return { dataDir: join(folder, 'data'), file, state };
}

async function fill(
  service: Service,
  { emails, say, kept }: { emails: number; say: (line: string) => void; kept: Kept | null },
): Promise<Mail> {
  const state: Partial<State> = kept?.state ?? {};
  const note = (changes: Partial<State>): void => {
    Object.assign(state, changes);
    if (kept !== null) writeFileSync(kept.file, JSON.stringify(state));
  };
  const mail = state.mail ?? {
    sender: await newSender(service),
    count: emails,
    untilMs: Date.now(),
  };
  note({ mail });
  const startedMs = performance.now();
  const sayWhen = (line: string): void =>
    say(`${line}, after ${show((performance.now() - startedMs) / 1000)} s`);
  if (!state.isFilled) {
    await fillSearchedMail(service.address(), mail, sayWhen);
    // Autovacuum leaves tables in this state when a service has been running for a while.
    await service.sql('vacuum analyze emails, recipients');
    note({ isFilled: true });
  }
  if (!state.hasBlocks) {
    await makeBlocks(service.address(), mail, sayWhen);
    await service.sql('vacuum analyze weekly_search_blocks');
    await service.sql('checkpoint');
    note({ hasBlocks: true });
  }
  return mail;
}

async function newSender(service: Service): Promise<Mail['sender']> {
  const key = await service.liveKey();
  const { body } = await service.request('GET', '/v1/api-keys/current', { key });
  const [project] = await service.sql('select id from projects order by id limit 1');
  return { projectId: project.id, environment: 'live', keyId: body.id, domainId: newId() };
}

type Measuring = { rounds: number; say: (line: string) => void };

async function measureAll(service: Service, { count }: Mail, { rounds, say }: Measuring) {
  const rows = [
    ['ms', 'hits', 'page 1', 'worst', 'first', 'CPU', `page ${PAGES}`, 'counts', 'first', 'CPU'],
  ];
  for (const search of searchesOf(count)) {
    const page = await measurePage(service, search, { rounds, after: null });
    const { hits } = search;
    if (hits !== undefined) assert.equal(page.hits, hits, `${search.name}: emails found`);
    const place = await placeOf(service, search);
    const deep =
      place === null ? null : await measurePage(service, search, { rounds, after: place });
    const counts = await measureCounts(service, search, rounds);
    rows.push([
      search.name,
      `${page.hits}${page.hasMore ? '+' : ''}`,
      show(page.median),
      show(page.worst),
      show(page.first),
      show(page.cpu),
      deep === null ? '–' : show(deep.median),
      show(counts.median),
      show(counts.first),
      show(counts.cpu),
    ]);
    say(`  ${rows.at(-1)!.join(' | ')}`);
  }
  return `${thousands(count)} emails, load ${loadNow()}\n\n${alignColumns(rows)}`;
}

type Times = { first: number; median: number; worst: number; cpu: number };

async function timesOf(
  service: Service,
  path: string,
  rounds: number,
): Promise<Times & Pick<ApiResponse, 'body'>> {
  const key = await service.liveKey();
  const ask = async () => {
    const startedMs = performance.now();
    const { status, body, text } = await service.request('GET', path, { key });
    assert.equal(status, 200, text);
    return { ms: performance.now() - startedMs, body };
  };
  const { ms: first, body } = await ask();
  const cpuBefore = postgresCpu(service);
  const times: number[] = [];
  for (let round = 0; round < rounds; round += 1) times.push((await ask()).ms);
  const cpu = (postgresCpu(service) - cpuBefore) / rounds;
  return { first, median: median(times), worst: Math.max(...times), cpu, body };
}

/** Milliseconds of the connections' processes so far, without autovacuum; NaN where /proc is not available. */
function postgresCpu(service: Service): number {
  const uses = usesOf({ supervisor: service.readyLine.pid });
  if (uses === null) return Number.NaN;
  const connections = uses.filter(({ name }) => name === 'postgres: backends');
  return connections.reduce((sum, { cpuMs }) => sum + cpuMs, 0);
}

const pathOf = ({ q }: Search, after: string | null): string =>
  `/v1/emails?limit=${LIMIT}&q=${encodeURIComponent(q)}${after === null ? '' : `&after=${after}`}`;

async function measurePage(
  service: Service,
  search: Search,
  { rounds, after }: { rounds: number; after: string | null },
): Promise<Times & { hits: number; hasMore: boolean }> {
  const { body, ...times } = await timesOf(service, pathOf(search, after), rounds);
  return { ...times, hits: body.data.length, hasMore: body.has_more };
}

/** Returns where the tenth page begins; null: there are fewer full pages. */
async function placeOf(service: Service, search: Search): Promise<string | null> {
  const key = await service.liveKey();
  let after: string | null = null;
  for (let page = 1; page < PAGES; page += 1) {
    const { body } = await service.request('GET', pathOf(search, after), { key });
    if (!body.has_more || body.scanned_until !== null) return null;
    after = body.data.at(-1).id;
  }
  return after;
}

async function measureCounts(service: Service, { q }: Search, rounds: number): Promise<Times> {
  const path = `/v1/emails/counts?q=${encodeURIComponent(q)}`;
  return timesOf(service, path, rounds);
}

const SIZES = `
select pg_table_size('weekly_search_blocks')::float8 as rows,
       pg_relation_size('weekly_search_blocks_by_terms')::float8 as terms,
       pg_database_size(current_database())::float8 as database`;

async function sizesOf(service: Service, { count }: Mail): Promise<string> {
  const [{ rows, terms, database }] = await service.sql(SIZES);
  const each = (bytes: number): string => `${show(bytes / count)} bytes an email`;
  return `Blocks: ${each(rows)}, index: ${each(terms)}, database: ${show(database / 1e9)} GB.`;
}
