/**
 * Measures how many bounces per second one worker accepts and settles: `node bin/run.js bench/reports.ts`.
 *
 * SQL writes delivered emails. Their bounces arrive over 64 SMTP connections. Each bounce has the parts of RFC 3464 and
 * 2 KB, and goes to the return path of another recipient. The time runs from the first connection to the last 250.
 * Every recipient must then be `bounced` and suppressed. Load, worker and database share this machine.
 */
import { readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { makeReturnPath } from '../src/mail/links/return-path.ts';
import { newId } from '../src/database/ids.ts';
import { SecretBox } from '../src/secrets/secret-box.ts';
import { statusReport } from '../test/support/reports.ts';
import { startService, type Service } from '../test/support/service.ts';
import { machineMs } from './parts/machine-clock.ts';

const SECRET_KEY = 'bench'.repeat(8);
const COUNT = Number(process.argv[2] ?? 20_000);
const CONNECTIONS = 64;
const ROUNDS = 3;
/** Number of clients. Each stays below the limit of messages a minute. */
const CLIENTS = 8;

const FILL_EMAILS = `
insert into emails (project_id, environment, id, created_at, expires_at, sent_at, completed_at,
                    domain_id, dual_signed, from_address, to_list, cc_list, bcc_list, reply_to,
                    subject, tags, metadata, open_count, worst, event_count, last_event)
select domains.project_id, 'live', email_id, now(), now(), now(), now(), domains.id, false,
       'shop@acme.example',
       array['jo@receiver.test'], '{}', '{}', '{}', 'Your order', '[]', '{}', 0, 1, 2, 'email.delivered'
  from domains cross join unnest($1::uuid[]) email_id where domains.name = 'acme.example'`;
const FILL_RECIPIENTS = `
insert into recipients (project_id, email_id, position, address, kind, status, attempts, completed_at)
select domains.project_id, email_id, 0, 'jo' || email_id || '@receiver.test', 'to', 'delivered', 1, now()
  from domains cross join unnest($1::uuid[]) email_id where domains.name = 'acme.example'`;

const service = await startService({
  database: 'own',
  args: ['--workers', '1'],
  env: {
    LETTERHAUS_SECRET_KEY: SECRET_KEY,
    LETTERHAUS_INBOUND_PORT: '0',
    LETTERHAUS_SMTP_HOST: '127.0.0.1',
    LETTERHAUS_LOG: 'warn',
  },
});
try {
  await service.addLiveDomain('acme.example');
  for (let round = 1; round <= ROUNDS; round += 1) {
    process.stdout.write(`${await measure(service)}\n`);
  }
} finally {
  await service[Symbol.asyncDispose]();
}

async function measure(at: Service): Promise<string> {
  const ids = Array.from({ length: COUNT }, () => newId());
  await at.sql(FILL_EMAILS, [ids]);
  await at.sql(FILL_RECIPIENTS, [ids]);
  const secret = new SecretBox(SECRET_KEY).derive('return path');
  const waiting = ids.map((emailId) => ({
    to: makeReturnPath({ emailId, position: 0, domain: 'send.acme.example', secret }),
    message: statusReport({ recipient: `jo${emailId}@receiver.test`, mark: 'x'.repeat(1_200) }),
  }));
  const port = at.readyLine.inbound_port ?? 0;
  const cpuBefore = await cpuUs(at);
  const startedMs = machineMs();
  const lines = Array.from({ length: CONNECTIONS }, (_, index) =>
    handInAll(port, `127.0.0.${2 + (index % CLIENTS)}`, waiting),
  );
  await Promise.all(lines);
  const seconds = (machineMs() - startedMs) / 1000;
  const cpu = (await cpuUs(at)) - cpuBefore;
  const [found] = await at.sql(
    `select (select count(*)::int from recipients where status = 'bounced' and email_id = any($1)) as bounced,
            (select count(*)::int from suppressions where source_email_id = any($1)) as suppressed`,
    [ids],
  );
  if (found.bounced !== COUNT || found.suppressed !== COUNT) {
    throw new Error(`of ${COUNT} bounces ${JSON.stringify(found)} were settled`);
  }
  const each = `${Math.round(cpu / COUNT)} µs of the worker's CPU for each`;
  return `${Math.round(COUNT / seconds)} bounces settled a second, ${each}`;
}

/** Returns the CPU time of the worker so far, user and system. /proc counts it in ticks of 10 ms. */
async function cpuUs(at: Service): Promise<number> {
  const [pid] = await at.workerPids();
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
}

type Report = { to: string; message: string };

/** Sends reports over one connection. It takes the next report after each reply and pipelines the envelopes. */
function handInAll(port: number, localAddress: string, waiting: Report[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: '127.0.0.1', localAddress });
    let text = '';
    let expected = ['220', '250'];
    let body: string | null = null;
    let inSession = 0;
    socket.on('error', reject);
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1');
      for (let match = nextReply(text); match !== null; match = nextReply(text)) {
        text = text.slice(match[0].length);
        const wanted = expected.shift() ?? '';
        if (!match[0].startsWith(wanted)) return reject(new Error(match[0]));
        if (wanted === '220') socket.write('EHLO bench.test\r\n');
        else if (wanted === '354') socket.write(body ?? '');
        else if (expected.length === 0) next();
      }
    });
    const next = (): void => {
      const report = inSession < 900 ? waiting.pop() : undefined;
      if (report === undefined) {
        socket.destroy();
        if (inSession < 900) return resolve();
        return void handInAll(port, localAddress, waiting).then(resolve, reject);
      }
      inSession += 1;
      body = `${report.message}\r\n.\r\n`;
      expected = ['250', '250', '354', '250'];
      socket.write(`MAIL FROM:<>\r\nRCPT TO:<${report.to}>\r\nDATA\r\n`);
    };
  });
}

function nextReply(text: string): RegExpExecArray | null {
  return /^(?:\d{3}-[^\n]*\r\n)*\d{3} [^\n]*\r\n/.exec(text);
}
