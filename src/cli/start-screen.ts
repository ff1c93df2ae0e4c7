/** What `posthorn start` prints when the service is ready. Pure. */
import type { Config } from '../config/config.ts';
import { FIRST_DOMAIN } from '../service/first-start.ts';
import type { ReadyInfo } from '../service/supervisor.ts';
import { facts } from './table.ts';

export type StartScreen = {
  info: ReadyInfo;
  config: Pick<Config, 'port' | 'portAsked' | 'inboundPort'>;
  /** How this command line is called here: `./bin/posthorn`. */
  program: string;
};

/** The first start: everything needed to send a first email, and the key that is shown only now. */
export function firstScreen(screen: StartScreen, testKey: string): string {
  const { info, program } = screen;
  return `${movedNote(screen)}
Posthorn is ready.

${indent(
  facts([
    ['API', `${info.url}/v1`],
    ['Described at', `${info.url}/openapi.json`],
    ['Test key', `${testKey}   (shown once)`],
    ['Data', info.dataDir],
    ['Database', info.database],
    ...mailPorts(info),
    ...(info.metricsUrl === null ? [] : [['Metrics', info.metricsUrl] as [string, string]]),
  ]),
)}

Send a first email; a test key simulates the delivery, nothing leaves this machine:

${curlCommand(info.url, testKey)}

See what became of it:   ${program} emails list
Send real mail:          ${program} domains add yourdomain.com
Stop:                    Ctrl-C
${inboundNote(screen)}`;
}

/** Every later start. */
export function laterScreen(screen: StartScreen): string {
  const { url, dataDir, database, pid } = screen.info;
  const ports = mailPorts(screen.info).map(([what, port]) => `, ${what} ${port}`);
  return `${movedNote(screen)}Posthorn is ready at ${url} (pid ${pid}, data in ${dataDir}, database ${database}${ports.join('')}). Stop it with Ctrl-C.
${inboundNote(screen)}`;
}

/** Of those that are listened on. */
function mailPorts({ inboundPort, submissionPorts }: ReadyInfo): [string, string][] {
  const submission = submissionPorts.length > 0 ? [submissionPorts.join(', ')] : [];
  const inbound = inboundPort === null ? [] : [String(inboundPort)];
  return [
    ...submission.map((ports): [string, string] => ['SMTP submission', ports]),
    ...inbound.map((port): [string, string] => ['SMTP inbound', port]),
  ];
}

/** The MX record of a sending domain leads here whether or not anything listens. */
function inboundNote({ config }: StartScreen): string {
  if (config.inboundPort !== null) return '';
  return `
Mail does not come in: bounces and complaints about live mail that arrive later are lost.
Set POSTHORN_INBOUND_PORT=25 to take them in (docs/bounces.md).
`;
}

/** Works as pasted into sh, bash, zsh and fish. */
export function curlCommand(url: string, key: string): string {
  const email = {
    from: `Acme <hello@${FIRST_DOMAIN}>`,
    to: 'delivered@simulator.test',
    subject: 'Hello',
    html: '<p>It works.</p>',
  };
  return `curl ${url}/v1/emails \\
  -H 'Authorization: Bearer ${key}' \\
  -H 'Content-Type: application/json' \\
  -d '${JSON.stringify(email)}'`;
}

function movedNote({ info, config }: StartScreen): string {
  const { port } = new URL(info.url);
  if (config.portAsked || port === String(config.port)) return '';
  return `Port ${config.port} is taken, so this one listens on port ${port}.\n`;
}

function indent(text: string): string {
  return text.replace(/^/gm, '  ');
}
