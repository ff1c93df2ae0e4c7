/**
 * Parses DATABASE_URL: splits it into one URL per host, drops the settings that Letterhaus makes, and shows it without
 * its password.
 */

/** Groups: scheme and user, hosts, database name, query. */
const URL_PARTS = /^(postgres(?:ql)?:\/\/(?:[^/?#]*@)?)([^/?#]*)([^?#]*)(?:\?([^#]*))?$/;

/**
 * Settings that Letterhaus makes itself (connect.ts). pg would prefer those of the URL, and poolers refuse most of them
 * in the startup message.
 */
const OWN_SETTINGS = [
  'application_name',
  'statement_timeout',
  'query_timeout',
  'lock_timeout',
  'idle_in_transaction_session_timeout',
  'target_session_attrs',
];

/**
 * Returns one URL per host, in order, from the forms of libpq: `postgres://u:p@one:5432,two:5433/name` or
 * `?host=one,two&port=5432,5433`.
 * @returns null for a text of another form
 */
export function splitDatabaseUrl(url: string): string[] | null {
  const [, start = '', authority = '', path = '', query = ''] = URL_PARTS.exec(url) ?? [];
  if (start === '') return null;
  const parameters = new URLSearchParams(query);
  for (const name of OWN_SETTINGS) parameters.delete(name);
  const hosts = splitList(parameters.get('host')) ?? [null];
  const ports = splitList(parameters.get('port')) ?? [null];
  if (ports.length > 1 && ports.length !== hosts.length) return null;
  const urls = authority.split(',').flatMap((place) =>
    hosts.map((host, index) => {
      const hostParameters = new URLSearchParams(parameters);
      if (host !== null) hostParameters.set('host', host);
      const port = ports[index] ?? ports[0];
      if (port) hostParameters.set('port', port);
      const text = hostParameters.toString();
      return `${start}${place}${path}${text === '' ? '' : `?${text}`}`;
    }),
  );
  // A list in the query replaces the hosts of the authority.
  const distinct = hosts[0] === null ? urls : urls.slice(0, hosts.length);
  return distinct.every((one) => URL.canParse(one)) ? distinct : null;
}

function splitList(text: string | null): string[] | null {
  return text === null ? null : text.split(',');
}

/** Returns the same address for another user. Neither name nor password needs escaping. */
export function addressForUser<Address extends { connectionString?: string | undefined }>(
  address: Address,
  { user, password }: { user: string; password: string },
): Address {
  const { connectionString: url } = address;
  if (url === undefined) return { ...address, user, password };
  const [, start = '', authority = '', path = '', query = ''] = URL_PARTS.exec(url) ?? [];
  const parameters = new URLSearchParams(query);
  for (const name of ['user', 'password']) parameters.delete(name);
  const scheme = start.slice(0, start.indexOf('://') + 3);
  const text = parameters.toString();
  const connectionString = `${scheme}${user}:${password}@${authority}${path}${text && `?${text}`}`;
  return { ...address, connectionString };
}

/** Returns the address without its password, which libpq accepts in two places. */
export function withoutPassword(url: string): string {
  const [, start = '', authority = '', path = '', query] = URL_PARTS.exec(url) ?? [];
  const [first = ''] = authority.split(',');
  const parsed = new URL(`${start}${first}${path}${query === undefined ? '' : `?${query}`}`);
  parsed.password = '';
  if (parsed.searchParams.has('password')) parsed.searchParams.delete('password');
  return parsed.href.replace(/(\/\/(?:[^/?#]*@)?)[^/?#]*/, `$1${authority}`);
}
