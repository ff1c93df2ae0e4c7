/** Shows how DATABASE_URL is split into addresses, and shown without its password. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { splitDatabaseUrl, withoutPassword } from './address.ts';

test('an address with several hosts gives one address for each, in order', () => {
  const cases: [string, string[] | null][] = [
    ['postgres://u:p@h:5432/db', ['postgres://u:p@h:5432/db']],
    [
      'postgres://u:p@h1:5432,h2:5433/db?sslmode=require',
      ['postgres://u:p@h1:5432/db?sslmode=require', 'postgres://u:p@h2:5433/db?sslmode=require'],
    ],
    ['postgresql://[::1]:5433,[::2]/db', ['postgresql://[::1]:5433/db', 'postgresql://[::2]/db']],
    [
      'postgres://u@localhost/db?host=one,two&port=1,2',
      ['postgres://u@localhost/db?host=one&port=1', 'postgres://u@localhost/db?host=two&port=2'],
    ],
    [
      'postgres://u@localhost/db?host=one,two&port=7',
      ['postgres://u@localhost/db?host=one&port=7', 'postgres://u@localhost/db?host=two&port=7'],
    ],
    ['postgres://u@localhost/db?host=one,two,three&port=1,2', null],
    ['postgres://u@h1,h2:x/db', null],
    ['mysql://u@h/db', null],
  ];
  for (const [url, urls] of cases) assert.deepEqual(splitDatabaseUrl(url), urls, url);
});

test('settings that Letterhaus sets are not taken from the address', () => {
  const url =
    'postgres://h/db?options=-c%20search_path%3Dmail&statement_timeout=1&query_timeout=1&lock_timeout=1' +
    '&idle_in_transaction_session_timeout=1&application_name=x&target_session_attrs=any';
  assert.deepEqual(splitDatabaseUrl(url), ['postgres://h/db?options=-c+search_path%3Dmail']);
});

test('the address of a database is shown without its password', () => {
  const shown = [
    'postgres://jo:secret@db.example.org:5432/letterhaus',
    'postgresql://jo@db.example.org/letterhaus?password=secret&sslmode=require',
    'postgres://jo:secret@localhost/letterhaus?host=/run/postgresql&password=secret&password=secret',
    'postgres://jo@localhost/letterhaus?host=/run/postgresql',
    'postgres://jo:secret@one:5432,two:5433/letterhaus?password=secret',
  ].map(withoutPassword);
  assert.deepEqual(shown, [
    'postgres://jo@db.example.org:5432/letterhaus',
    'postgresql://jo@db.example.org/letterhaus?sslmode=require',
    'postgres://jo@localhost/letterhaus?host=%2Frun%2Fpostgresql',
    'postgres://jo@localhost/letterhaus?host=/run/postgresql',
    'postgres://jo@one:5432,two:5433/letterhaus',
  ]);
});
