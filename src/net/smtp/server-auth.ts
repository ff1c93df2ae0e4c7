/**
 * The exchange of AUTH PLAIN (RFC 4616) and LOGIN (RFC 4954): from the command to a name and a
 * password, or to the reply that says why not. Who they belong to is not decided here.
 */
import { answerOf, type SmtpAnswer } from './server-types.ts';

export type Credentials = { user: string; pass: string };
/** Asks the client with a 334 and gives its line; null when the client is gone. */
export type AskClient = (challenge: string) => Promise<string | null>;
export type AuthRead = Credentials | { refused: SmtpAnswer } | null;

const NOT_BASE64 = answerOf(501, '5.5.2', 'This is not base64');
const CANCELED = answerOf(501, '5.7.0', 'Authentication canceled');
const UNKNOWN = answerOf(504, '5.5.4', 'There are AUTH PLAIN and AUTH LOGIN');
const NOT_PLAIN = answerOf(
  501,
  '5.5.2',
  'AUTH PLAIN needs a user name and a password, separated by NUL',
);

/** @param argument what follows AUTH: the mechanism, perhaps the first answer. Null: gone. */
export async function readCredentials(argument: string, ask: AskClient): Promise<AuthRead> {
  const [mechanism = '', initial, ...more] = argument.split(/ +/);
  if (more.length > 0) return { refused: NOT_BASE64 };
  switch (mechanism.toUpperCase()) {
    case 'PLAIN':
      return plain(initial, ask);
    case 'LOGIN':
      return login(initial, ask);
    default:
      return { refused: UNKNOWN };
  }
}

async function plain(initial: string | undefined, ask: AskClient): Promise<AuthRead> {
  const text = await secret(initial, '', ask);
  if (text === null || typeof text === 'object') return text;
  const [, user, pass, ...more] = text.split('\0');
  if (user === undefined || pass === undefined || more.length > 0) return { refused: NOT_PLAIN };
  return { user, pass };
}

async function login(initial: string | undefined, ask: AskClient): Promise<AuthRead> {
  const user = await secret(initial, 'Username:', ask);
  if (user === null || typeof user === 'object') return user;
  const pass = await secret(undefined, 'Password:', ask);
  if (pass === null || typeof pass === 'object') return pass;
  return { user, pass };
}

async function secret(
  initial: string | undefined,
  prompt: string,
  ask: AskClient,
): Promise<string | { refused: SmtpAnswer } | null> {
  const given = initial ?? (await ask(Buffer.from(prompt).toString('base64')));
  if (given === null) return null;
  if (given === '*') return { refused: CANCELED };
  // RFC 4954 §4: an initial answer that is empty is written `=`.
  if (given === '=' && initial !== undefined) return '';
  const bytes = Buffer.from(given, 'base64');
  return bytes.toString('base64') === given ? bytes.toString('utf8') : { refused: NOT_BASE64 };
}
