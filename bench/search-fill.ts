/**
 * Stored mail for `npm run bench -- search` (search.ts): emails and recipients of one project over eleven weeks, filled
 * by SQL, and the blocks of their terms. Nothing that a search does not read is filled, such as contents and events.
 *
 * Each email has an address, an order number and two tags, one in ten a Message-ID of its own. One in twenty thousand
 * bounced with a reply that no other has. `rareEmailOf` computes the rare texts of an email, for searches that must
 * find it.
 *
 * A week of each table is one commit, which truncates its partition first, so it needs no WAL. The blocks are those of
 * the product. Several connections make them, a week each, and the index is built afterwards.
 */
import { createHash } from 'node:crypto';
import {
  clientQueries,
  connectAsOwner,
  type DatabaseAddress,
  type Queryable,
} from '../src/database/database.ts';
import { ADVISORY_LOCKS } from '../src/database/advisory-locks.ts';
import { firstUuidAt } from '../src/database/ids.ts';
import { WEEK_MS } from '../src/database/partitions.ts';
import {
  addSearchBlocks,
  BLOCK_EMAILS,
  type SearchedEmail,
} from '../src/emails/list/search-blocks-store.ts';
import { makeWeeks } from '../test/support/fill.ts';
import type { Sender } from '../test/support/mail-store.ts';

export type Mail = {
  sender: Sender;
  count: number;
  /** The time of the newest email. */
  untilMs: number;
};

type Say = (line: string) => void;

const WEEKS = 11;
const SPAN_MS = WEEKS * WEEK_MS;

/** One email in ten has a Message-ID of its own. */
const MESSAGE_ID_EVERY = 10;
/** One email in so many bounced, with a reply of its own. */
const BOUNCE_EVERY = 20_000;

/** Returns rare texts of an email that bounced. A third of the mail is older. */
export function rareEmailOf(count: number) {
  const number = Math.floor(count / 3 / BOUNCE_EVERY) * BOUNCE_EVERY;
  return {
    subject: `HB-${10_000_000 + ((number * 7_919) % 89_999_999)}`,
    messageId: `${md5(`m${number}`).slice(0, 20)}@mail.harborbooks.example`,
    company: `company-${md5(String(number / 20)).slice(0, 5)}.example`,
    campaign: `c${number / 5_000}`,
    reply: `case ${md5(String(number)).slice(0, 12)}`,
  };
}

const md5 = (text: string): string => createHash('md5').update(text).digest('hex');

type Week = { fromMs: number; first: number; last: number };

/** The weeks with the numbers of their emails, oldest first. */
function weeksOf({ count, untilMs }: Mail): Week[] {
  const numberAt = (ms: number): number =>
    Math.min(count, Math.max(0, Math.ceil(count - ((untilMs - ms) / SPAN_MS) * count)));
  const oldest = Math.floor((untilMs - SPAN_MS) / WEEK_MS);
  return Array.from({ length: WEEKS + 2 }, (_, index) => {
    const fromMs = (oldest + index) * WEEK_MS;
    return { fromMs, first: numberAt(fromMs), last: numberAt(fromMs + WEEK_MS) - 1 };
  }).filter(({ first, last }) => first <= last);
}

/** Fills both tables at the same time, for two cores. */
export async function fillSearchedMail(address: DatabaseAddress, mail: Mail, say: Say) {
  await withOwner(address, (owner) => makeWeeks(owner, WEEKS + 1));
  const fill = (table: keyof typeof INSERT): Promise<void> =>
    withOwner(address, async (owner) => {
      for (const week of weeksOf(mail)) {
        await fillWeek(owner, { table, week, mail });
        say(`  ${table}: ${thousands(week.last + 1)} of ${thousands(mail.count)}`);
      }
    });
  await Promise.all([fill('emails'), fill('recipients')]);
}

async function fillWeek(
  owner: Queryable,
  { table, week, mail }: { table: keyof typeof INSERT; week: Week; mail: Mail },
): Promise<void> {
  const { sender, count, untilMs } = mail;
  const made = [sender.projectId, week.first, week.last, count, untilMs, SPAN_MS];
  const others = table === 'emails' ? [sender.environment, sender.domainId, sender.keyId] : [];
  const day = new Date(week.fromMs).toISOString().slice(0, 10).replaceAll('-', '');
  await owner.query('begin');
  await owner.query(`truncate ${table}_${day}`);
  await owner.query(INSERT[table], [...made, ...others]);
  await owner.query('commit');
}

/** Number, id, time, address and random texts of each email. */
const MADE = `
  select number, at, hash, person || '@' || host as address, host,
         (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '7' || substr(hash, 1, 3)
          || '8' || substr(hash, 4, 15))::uuid as id
    from generate_series($2::int, $3::int) number
   cross join lateral (
      select md5(number::text) as hash,
             to_timestamp(($5::float8 - ($4::int - number)::float8 * $6::float8 / $4::int) / 1000) as at) drawn
   cross join lateral (select ('x' || substr(hash, 20, 7))::bit(28)::int as random) random
   cross join lateral (
      select (array['anna','ben','carla','david','emma','felix','greta','hannes','ines','jonas','karin','lukas','mia',
                    'noah','olga','paul','quirin','rosa','simon','tina'])[1 + random % 20]
             || '.' ||
             (array['berg','schmidt','lindqvist','okafor','tanaka','kowalski','moreau','haugen','santos','ribeiro',
                    'lund','fischer','weber','meyer','wagner','becker','schulz','hoffmann','koch','richter',
                    'novak','silva','rossi','dubois','larsen','nielsen','virtanen','horvat','popescu','nagy',
                    'murphy','walsh','evans','hughes','campbell','stewart','morgan','cooper','bailey','bennett']
             )[1 + random / 20 % 40] || substr(hash, 1, 1 + random / 800 % 4) as person,
             case when random / 3200 % 10 < 6
                  then (array['gmail.com','outlook.com','yahoo.com','gmx.net','icloud.com'])[1 + random / 32000 % 5]
                  else 'company-' || substr(md5((number / 20)::text), 1, 5) || '.example' end as host) named`;

const INSERT = {
  emails: `
insert into emails (project_id, environment, id, created_at, expires_at, sent_at, completed_at, domain_id, dual_signed,
                    key_id, from_address, from_name, to_list, cc_list, bcc_list, reply_to, subject, message_id, tags,
                    metadata, open_count, worst, event_count, last_event)
select $1::uuid, $7, id, at, at + interval '3 days', at, at, $8::uuid, true, $9::uuid, 'orders@harborbooks.example',
       'Harbor Books', array[address], '{}', '{}', '{}',
       replace((array['Your order %s has shipped', 'Your order %s is confirmed', 'Your invoice for order %s',
                      'Reset your password', 'Welcome to Harbor Books', 'Your parcel %s arrives today']
               )[1 + number % 6], '%s', 'HB-' || (10000000 + number::bigint * 7919 % 89999999)),
       case when number % ${MESSAGE_ID_EVERY} = 0
            then '<' || substr(md5('m' || number), 1, 20) || '@mail.harborbooks.example>' end,
       jsonb_build_array(
         jsonb_build_object('name', 'kind', 'value', (array['shipped','confirmed','invoice','password','welcome',
                                                            'parcel'])[1 + number % 6]),
         jsonb_build_object('name', 'campaign', 'value', 'c' || number / 5000)),
       '{}', 0, case when number % ${BOUNCE_EVERY} = 0 then 6 else 1 end, 2,
       case when number % ${BOUNCE_EVERY} = 0 then 'email.bounced' else 'email.delivered' end
  from (${MADE}) made`,

  recipients: `
insert into recipients (project_id, email_id, position, address, kind, status, attempts, completed_at, provider, smtp)
select $1::uuid, id, 0, address, 'to', case when number % ${BOUNCE_EVERY} = 0 then 'bounced' else 'delivered' end, 1,
       at, split_part(host, '.', 1),
       case when number % ${BOUNCE_EVERY} = 0
            then json_build_object('code', 550, 'enhanced_code', '5.1.1', 'message',
                   'No such user here, case ' || substr(hash, 1, 12), 'mx', 'mx.' || host, 'ip', '192.0.2.7')
            else json_build_object('code', 250, 'enhanced_code', '2.0.0', 'message',
                   'Ok: queued as ' || upper(substr(hash, 8, 11)), 'mx', 'mx' || number % 4 || '.' || host,
                   'ip', '192.0.2.' || number % 200) end
  from (${MADE}) made`,
} as const;

const READ = `
select id, subject, to_list || cc_list || bcc_list as addresses, from_name as "fromName",
       from_address as "fromAddress", message_id as "messageId", tags
  from emails
 where project_id = $1 and environment = $2 and id > $3::uuid and id < $4::uuid
 order by id limit ${64 * BLOCK_EMAILS}`;

const LAST_BLOCK = `
select last_id as id from weekly_search_blocks
 where project_id = $1 and environment = $2 and last_id >= $3 and last_id < $4 order by last_id desc limit 1`;

const INDEX = 'weekly_search_blocks_by_terms';
const BUILD_INDEX = `
set maintenance_work_mem = '1GB';
set max_parallel_maintenance_workers = 2;
create index ${INDEX} on weekly_search_blocks using gin (terms) with (gin_pending_list_limit = 1024)`;

/** Connections that make blocks: the program works for one while the database works for the others. */
const MAKERS = 3;

/** Makes the blocks that are missing. An interrupted run continues after the last block of each week. */
export async function makeBlocks(address: DatabaseAddress, mail: Mail, say: Say): Promise<void> {
  await withOwner(address, (owner) => owner.query(`drop index if exists ${INDEX}`));
  const weeks = weeksOf(mail);
  const makeSome = (owner: Queryable): Promise<void> => makeNextWeek(owner, { weeks, mail, say });
  await Promise.all(Array.from({ length: MAKERS }, () => withOwner(address, makeSome)));
  say('  the index of the blocks');
  await withOwner(address, (owner) => owner.query(BUILD_INDEX));
}

async function makeNextWeek(
  owner: Queryable,
  { weeks, mail, say }: { weeks: Week[]; mail: Mail; say: Say },
): Promise<void> {
  const { sender } = mail;
  for (let week = weeks.shift(); week !== undefined; week = weeks.shift()) {
    const bounds = [firstUuidAt(week.fromMs), firstUuidAt(week.fromMs + WEEK_MS)] as const;
    const scope = [sender.projectId, sender.environment];
    const [block] = await owner.query<{ id: string }>(LAST_BLOCK, [...scope, ...bounds]);
    let after: string | undefined = block?.id ?? bounds[0];
    while (after !== undefined) {
      const values: unknown[] = [...scope, after, bounds[1]];
      const emails: SearchedEmail[] = await owner.query<SearchedEmail>(READ, values);
      await addSearchBlocks(owner, sender, emails);
      after = emails.at(-1)?.id;
    }
    say(`  blocks: the week of number ${thousands(week.first)}`);
  }
}

async function withOwner<Result>(
  address: DatabaseAddress,
  use: (owner: Queryable) => Promise<Result>,
): Promise<Result> {
  const client = await connectAsOwner(address, 'fill');
  try {
    // Maintenance of the service reads the tables meanwhile.
    await client.query('set lock_timeout = 0');
    return await use(clientQueries(client));
  } finally {
    await client.end();
  }
}

/** Keeps the service from making blocks of the mail until `use` has ended. */
export function withoutMaintenance<Result>(
  address: DatabaseAddress,
  use: () => Promise<Result>,
): Promise<Result> {
  return withOwner(address, async (owner) => {
    await owner.query('select pg_advisory_lock($1)', [ADVISORY_LOCKS.searchBlocks]);
    return use();
  });
}

export function thousands(count: number): string {
  return count.toLocaleString('en-US');
}
