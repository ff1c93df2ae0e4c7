/**
 * Checks the mail ports of this service by connecting from this machine: whether they answer, offer TLS and refuse to
 * relay. Sends no message, because each transaction ends before the final dot. Only another machine can check whether
 * strangers reach the ports.
 */
import { ageText } from '../../backup/backup-age.ts';
import { listInbound } from '../../inbound/inbound-message-store.ts';
import { DAY_MS } from '../../lib/units.ts';
import { isPublicAddress } from '../../net/ip-addresses.ts';
import { connectSmtp } from '../../net/smtp/client.ts';
import { timeoutsWithin } from '../../net/smtp/client-session.ts';
import type { CheckContext } from '../check-context.ts';
import { type Finding, green, red, unknown, yellow } from '../finding.ts';
import type { Check } from '../run-checks.ts';

const PHASE_WITHIN_MS = 10_000;
const RECEIVED_MAX = 50;
const PROOF_MS = 7 * DAY_MS;
/** A domain that nobody can register (RFC 2606), so that an open relay could not deliver the mail either. */
const STRANGER = 'open-relay-test@letterhaus-doctor.invalid';

type Port = { port: number; implicitTls: boolean };
type Session = Awaited<ReturnType<typeof connectSmtp>>;

export const INBOUND_PORT: Check = {
  id: 'inbound_port',
  title: 'Port for bounces',
  async run(context) {
    const { inboundPort } = context.config;
    if (inboundPort === null) {
      return [
        yellow('LETTERHAUS_INBOUND_PORT is not set.', {
          meaning:
            'Bounces and complaints that arrive as mail are lost, unless another machine of the installation receives them.',
          remedy: 'Set LETTERHAUS_INBOUND_PORT=25, and open that port (docs/bounces.md).',
        }),
      ];
    }
    if (inboundPort === 0) return [unknown('The port is chosen at each start.')];
    const session = await connect(context, { port: inboundPort, implicitTls: false });
    if (session.kind !== 'ready') return [unanswered(context, inboundPort, session)];
    const { tls } = session.connection;
    await session.connection.close();
    const answers = `Port ${inboundPort} answers with ${tls?.version ?? 'plain text'}.`;
    const own = tls === null ? withoutTls(inboundPort) : green(answers, String(inboundPort));
    return [own, await reachedFromOutside(context, inboundPort)];
  },
};

/** Mail that a stranger delivered lately proves that the port is open. Nothing here proves that it is closed. */
async function reachedFromOutside(
  { config: { hostname }, database, world }: CheckContext,
  port: number,
): Promise<Finding> {
  const isReadable = database.kind === 'open' && database.schema === database.schemaKnown;
  const filter = { limit: RECEIVED_MAX, kind: null, before: null };
  const received = isReadable ? await listInbound(database.db, filter) : [];
  const newest = received.find(({ remoteAddress }) => isPublicAddress(remoteAddress));
  const ageMs = newest === undefined ? Infinity : world.now() - newest.receivedAt.getTime();
  const subject = String(port);
  if (ageMs < PROOF_MS)
    return green(`A mail server delivered mail ${ageText(ageMs)} ago.`, subject);
  return unknown(`Whether other machines reach port ${port} cannot be seen from here.`, {
    subject,
    remedy: 'Run the command on another machine.',
    command: `nc -vz -w 5 ${hostname} ${port}`,
  });
}

export const OPEN_RELAY: Check = {
  id: 'open_relay',
  title: 'Own ports refuse to relay',
  async run(context) {
    const { inboundPort, submissionPorts } = context.config;
    const inbound = inboundPort === null ? [] : [{ port: inboundPort, implicitTls: false }];
    const ports = [...inbound, ...submissionPorts].filter(({ port }) => port !== 0);
    if (ports.length === 0) return [green('The service has no fixed port for mail.')];
    return Promise.all(ports.map((port) => tryToRelay(context, port)));
  },
};

async function tryToRelay(context: CheckContext, port: Port): Promise<Finding> {
  const subject = String(port.port);
  const session = await connect(context, port);
  if (session.kind !== 'ready') return unanswered(context, port.port, session);
  const result = await session.connection.send({
    envelopeFrom: '',
    recipient: STRANGER,
    message: Buffer.from('\r\n'),
    smtpUtf8: false,
    // With PIPELINING, DATA follows RCPT at once. Without the final dot, the server discards the message.
    mayProceed: (step) => step === 'data_command',
  });
  session.connection.destroy();
  if (result.kind === 'replied' && result.phase !== 'data_command' && result.phase !== 'data') {
    const found = `Port ${port.port} refuses mail for strangers: ${result.reply.code}.`;
    if (result.reply.code >= 500) return green(found, subject);
    return unknown(`Port ${port.port} cannot answer now: ${result.reply.code}.`, { subject });
  }
  if (result.kind === 'failed' && result.cause !== 'withheld') {
    return unknown(`The session on port ${port.port} ended: ${result.message}`, { subject });
  }
  return red(`Port ${port.port} accepts mail for ${STRANGER} without a log-in.`, {
    subject,
    meaning: 'Spammers find open relays within hours, and receivers then block the address.',
    remedy:
      'Stop the program that listens there. Either another program has the port, or a proxy in front of the service accepts the mail.',
    command: `ss -ltnp 'sport = :${port.port}'`,
  });
}

function connect({ config }: CheckContext, { port, implicitTls }: Port): Promise<Session> {
  const { smtpHost, hostname } = config;
  const isEverywhere = smtpHost === null || smtpHost === '0.0.0.0' || smtpHost === '::';
  const address = isEverywhere ? '127.0.0.1' : smtpHost;
  return connectSmtp({
    host: hostname,
    address,
    port,
    implicitTls,
    heloName: hostname,
    tls: 'opportunistic',
    timeouts: timeoutsWithin(PHASE_WITHIN_MS),
  });
}

function withoutTls(port: number): Finding {
  return red(`Port ${port} does not offer TLS.`, {
    subject: String(port),
    meaning: 'Servers that require TLS cannot deliver bounces.',
    remedy: 'Read the log of the service about its certificate (docs/tls.md).',
  });
}

function unanswered(
  { machine }: CheckContext,
  port: number,
  session: Exclude<Session, { kind: 'ready' }>,
): Finding {
  const subject = String(port);
  const reason =
    session.kind === 'failed' ? session.message : `${session.reply.code} ${session.reply.message}`;
  const remedy = 'Start the service, and run the check again.';
  if (!machine.isServiceRunning)
    return unknown(`Port ${port} does not answer: ${reason}`, { subject, remedy });
  return red(`Port ${port} does not answer: ${reason}`, {
    subject,
    meaning: 'Mail to this port fails.',
    remedy: 'Read the log of the service, and find out which program uses the port.',
    command: `ss -ltnp 'sport = :${port}'`,
  });
}
