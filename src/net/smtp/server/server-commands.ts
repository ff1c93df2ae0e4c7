/**
 * Parses the commands of an SMTP client (RFC 5321 §4.1, 1870, 3461, 6152, 6531, 4954). Strict: a path needs its
 * angle brackets, and unknown parameters are refused. Stateless.
 */
import {
  readEnvid,
  readNotify,
  readOrcpt,
  readRet,
  type RcptDsn,
} from '../../../mail/dsn-parameters.ts';
import { serverReply, type ServerReply, type SmtpMail } from './server-types.ts';

export type Command = { verb: string; argument: string };

/** Text without control characters and without U+FFFD, by which decoding replaces invalid UTF-8. */
const READABLE = /^[^\0-\x1f\x7f-\x9f\u2028\u2029\ufffd]*$/;
/** `<path>` and the parameters. A quoted local part may contain brackets and spaces. */
const PATH =
  /^<(?:@[^:<>"]*:)?((?:"(?:[^"\\]|\\[^])*"|[^\s<>"\\])*)>((?: +[A-Za-z0-9][A-Za-z0-9-]*(?:=[^ ]*)?)*)$/;
/** RFC 5321 §4.5.3.1.3 */
const PATH_OCTETS_MAX = 254;
const SYNTAX = serverReply(
  501,
  '5.5.4',
  'Write the address in angle brackets, as <name@example.com>',
);
const NEEDS_UTF8 = serverReply(553, '5.6.7', 'This address needs the parameter SMTPUTF8 in MAIL');
const NOT_BASE64 = serverReply(501, '5.5.2', 'This is not base64');
const CANCELED = serverReply(501, '5.7.0', 'Authentication canceled');
const UNKNOWN = serverReply(504, '5.5.4', 'Use AUTH PLAIN or AUTH LOGIN');
const NOT_PLAIN = serverReply(
  501,
  '5.5.2',
  'AUTH PLAIN needs a user name and a password, separated by NUL',
);

/** Returns null when the line cannot be a command. */
export function readCommand(line: Buffer): Command | null {
  const text = line.toString('utf8');
  if (!READABLE.test(text)) return null;
  const space = text.indexOf(' ');
  const verb = space === -1 ? text : text.slice(0, space);
  return { verb: verb.toUpperCase(), argument: space === -1 ? '' : text.slice(space + 1).trim() };
}

type OfferedExtensions = { dsn: boolean };

export function readMail(
  argument: string,
  { dsn }: OfferedExtensions,
): SmtpMail | { refused: ServerReply } {
  const read = readPath('FROM', argument);
  if ('refused' in read) return read;
  const mail: SmtpMail = { from: read.path, sizeBytes: null, body: '7BIT', smtpUtf8: false };
  for (const [name, value] of read.parameters) {
    const refused = (MAIL_PARAMETERS[name] ?? (dsn ? MAIL_DSN[name] : undefined) ?? refuseUnknown)(
      mail,
      value,
      name,
    );
    if (refused !== null) return { refused };
  }
  return isAscii(mail.from) || mail.smtpUtf8 ? mail : { refused: NEEDS_UTF8 };
}

/**
 * Reads a parameter with an optional value.
 * @returns the refusal of an invalid one
 */
type Parameter<Target> = (
  target: Target,
  value: string | undefined,
  name: string,
) => ServerReply | null;
type Parameters<Target> = Readonly<Record<string, Parameter<Target> | undefined>>;

/** RFC 5321 §4.1.1.11: the extension, or this value of it, is not supported. */
function notOfferedReply(feature: string): ServerReply {
  return serverReply(555, '5.5.4', `${feature.slice(0, 40)} is not offered here`);
}

function syntaxErrorReply(text: string): ServerReply {
  return serverReply(501, '5.5.4', text);
}

const refuseUnknown: Parameter<unknown> = (_target, _value, name) => notOfferedReply(name);

/** Returns the table without a prototype, because a client may name any member of one. */
function withoutPrototype<Target>(
  parameters: Record<string, Parameter<Target>>,
): Parameters<Target> {
  return Object.assign(Object.create(null) as Record<string, Parameter<Target>>, parameters);
}

const MAIL_PARAMETERS = withoutPrototype<SmtpMail>({
  SIZE(mail, value) {
    mail.sizeBytes = Number(value);
    if (value !== undefined && /^\d{1,20}$/.test(value)) return null;
    return syntaxErrorReply('SIZE is a number of octets');
  },
  BODY(mail, value) {
    const body = value?.toUpperCase();
    if (body === 'BINARYMIME') return notOfferedReply('BODY=BINARYMIME');
    if (body !== '7BIT' && body !== '8BITMIME') return syntaxErrorReply('BODY is 7BIT or 8BITMIME');
    mail.body = body;
    return null;
  },
  SMTPUTF8(mail, value) {
    mail.smtpUtf8 = true;
    return value === undefined ? null : syntaxErrorReply('SMTPUTF8 has no value');
  },
  // RFC 4954 §5: the original submitter, which is ignored.
  AUTH: (_mail, value) =>
    value === undefined ? syntaxErrorReply('AUTH has a value, such as <>') : null,
});

const MAIL_DSN = withoutPrototype<SmtpMail>({
  RET(mail, value = '') {
    const ret = readRet(value);
    if (typeof ret === 'object') return syntaxErrorReply(ret.problem);
    mail.dsn = { envid: null, ...mail.dsn, ret };
    return null;
  },
  ENVID(mail, value = '') {
    const envid = readEnvid(value);
    if (typeof envid === 'object') return syntaxErrorReply(envid.problem);
    mail.dsn = { ret: null, ...mail.dsn, envid };
    return null;
  },
});

type Rcpt = { address: string; dsn?: RcptDsn };

export function readRcpt(
  argument: string,
  { smtpUtf8, dsn }: OfferedExtensions & { smtpUtf8: boolean },
): Rcpt | { refused: ServerReply } {
  const read = readPath('TO', argument);
  if ('refused' in read) return read;
  if (read.path === '') return { refused: SYNTAX };
  const rcpt: Rcpt & { smtpUtf8: boolean } = { address: read.path, smtpUtf8 };
  for (const [name, value] of read.parameters) {
    const refused = ((dsn ? RCPT_DSN[name] : undefined) ?? refuseUnknown)(rcpt, value, name);
    if (refused !== null) return { refused };
  }
  return isAscii(read.path) || smtpUtf8 ? rcpt : { refused: NEEDS_UTF8 };
}

const RCPT_DSN = withoutPrototype<Rcpt & { smtpUtf8: boolean }>({
  NOTIFY(rcpt, value = '') {
    const notify = readNotify(value);
    if ('problem' in notify) return syntaxErrorReply(notify.problem);
    rcpt.dsn = { orcpt: null, ...rcpt.dsn, notify };
    return null;
  },
  ORCPT(rcpt, value = '') {
    const orcpt = readOrcpt(value, rcpt);
    if (typeof orcpt === 'object') return syntaxErrorReply(orcpt.problem);
    rcpt.dsn = { notify: null, ...rcpt.dsn, orcpt };
    return null;
  },
});

type Path = { path: string; parameters: [name: string, value: string | undefined][] };

function readPath(keyword: 'FROM' | 'TO', argument: string): Path | { refused: ServerReply } {
  const [keywordText] = argument.split(':', 1);
  if (keywordText?.trimEnd().toUpperCase() !== keyword) return { refused: SYNTAX };
  const match = PATH.exec(argument.slice(keywordText.length + 1).trimStart());
  if (match === null) return { refused: SYNTAX };
  const [, path = '', parameterText = ''] = match;
  if (Buffer.byteLength(path) > PATH_OCTETS_MAX) {
    return { refused: serverReply(553, '5.1.3', 'This address is too long') };
  }
  const parameterWords = parameterText.split(' ').filter((word) => word !== '');
  const parameters = parameterWords.map((word): [string, string | undefined] => {
    const equals = word.indexOf('=');
    if (equals === -1) return [word.toUpperCase(), undefined];
    return [word.slice(0, equals).toUpperCase(), word.slice(equals + 1)];
  });
  const invalidParameter = parameters.find(([, value]) => value === '' || value?.includes('='));
  if (invalidParameter !== undefined)
    return { refused: syntaxErrorReply(`${invalidParameter[0].slice(0, 40)} has no valid value`) };
  const names = new Set(parameters.map(([name]) => name));
  if (names.size < parameters.length)
    return { refused: syntaxErrorReply('A parameter may occur only once') };
  return { path, parameters };
}

function isAscii(text: string): boolean {
  return /^[\0-\x7f]*$/.test(text);
}

/** Returns whether the command is HTTP: a browser or proxy that was directed to this port, perhaps as an attack. */
export function isAnotherProtocol({ verb, argument }: Command): boolean {
  if (/^(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|TRACE|CONNECT|PRI|PROXY)$/.test(verb)) return true;
  return /^[A-Z-]+:$/.test(verb) && argument !== '';
}

type Credentials = { user: string; pass: string };
/** Sends a 334 and returns the client's line; null when the client has disconnected. */
type AskClient = (challenge: string) => Promise<string | null>;
type CredentialsResult = Credentials | { refused: ServerReply } | null;

/**
 * Reads the credentials of AUTH PLAIN (RFC 4616) or LOGIN (RFC 4954). The `logIn` handler validates them.
 * @param argument the mechanism after AUTH, and optionally an initial response
 * @returns the refusal of an invalid command; null when the client has disconnected
 */
export async function readCredentials(
  argument: string,
  ask: AskClient,
): Promise<CredentialsResult> {
  const [mechanism = '', initial, ...extra] = argument.split(/ +/);
  if (extra.length > 0) return { refused: NOT_BASE64 };
  switch (mechanism.toUpperCase()) {
    case 'PLAIN':
      return readPlain(initial, ask);
    case 'LOGIN':
      return readLogin(initial, ask);
    default:
      return { refused: UNKNOWN };
  }
}

async function readPlain(initial: string | undefined, ask: AskClient): Promise<CredentialsResult> {
  const text = await readSecret(initial, '', ask);
  if (text === null || typeof text === 'object') return text;
  const [, user, pass, ...extra] = text.split('\0');
  if (user === undefined || pass === undefined || extra.length > 0) return { refused: NOT_PLAIN };
  return { user, pass };
}

async function readLogin(initial: string | undefined, ask: AskClient): Promise<CredentialsResult> {
  const user = await readSecret(initial, 'Username:', ask);
  if (user === null || typeof user === 'object') return user;
  const pass = await readSecret(undefined, 'Password:', ask);
  if (pass === null || typeof pass === 'object') return pass;
  return { user, pass };
}

async function readSecret(
  initial: string | undefined,
  prompt: string,
  ask: AskClient,
): Promise<string | { refused: ServerReply } | null> {
  const response = initial ?? (await ask(Buffer.from(prompt).toString('base64')));
  if (response === null) return null;
  if (response === '*') return { refused: CANCELED };
  // RFC 4954 §4: an empty initial response is written `=`.
  if (response === '=' && initial !== undefined) return '';
  const bytes = Buffer.from(response, 'base64');
  return bytes.toString('base64') === response ? bytes.toString('utf8') : { refused: NOT_BASE64 };
}
