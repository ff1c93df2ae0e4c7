/** The list of all checks, in the order of the report. docs/doctor.md has a section for each. */
import { CLOCK } from './database/clock.ts';
import {
  DATABASE,
  DATABASE_CONNECTIONS,
  DATABASE_DURABILITY,
  DATABASE_SPEED,
  DATABASE_WRAPAROUND,
} from './database/server.ts';
import { DATABASE_REPLICATION } from './database/replication.ts';
import { DOMAIN_AGE } from './domains/age.ts';
import { BULK_GMAIL, BULK_MICROSOFT, BULK_YAHOO } from './domains/bulk-senders.ts';
import {
  DOMAIN_BIMI,
  DOMAIN_DMARC,
  DOMAIN_MTA_STS,
  DOMAIN_REPLIES,
  DOMAIN_TLS_REPORTS,
} from './domains/policies.ts';
import { DOMAIN_RECORDS } from './domains/records.ts';
import {
  CONFIGURATION,
  DATA_DIRECTORY,
  LISTENERS,
  SECRET_KEY,
  TEST_SETTINGS,
  USER,
} from './machine/access.ts';
import { CERTIFICATES } from './machine/certificates.ts';
import { NODE_VERSION } from './machine/node-version.ts';
import { DISK_SPACE, DURABLE_WRITES } from './machine/disk.ts';
import { LOCAL_PORTS, MEMORY, OPEN_FILES } from './machine/limits.ts';
import { BACKUP } from './mail/backup.ts';
import { INBOUND_PORT, OPEN_RELAY } from './mail/own-ports.ts';
import { PUBLIC_URL } from './mail/public-url.ts';
import { CONDITIONS, QUEUE } from './mail/queue.ts';
import { RELAY } from './mail/relay.ts';
import { BLOCK_LISTS, BLOCK_LISTS_OF_NAMES } from './network/block-lists.ts';
import { HOST_NAME, HOSTS_FILE } from './network/host-name.ts';
import { OUTGOING_PORT_25 } from './network/outgoing.ts';
import { DNS_OVER_TCP, DNSSEC, RESOLVER, RESOLVER_HONESTY } from './network/resolver.ts';
import { HELO_NAME, REVERSE_DNS } from './network/reverse-dns.ts';
import { SOURCE_ADDRESSES } from './network/sources.ts';
import type { Check } from './run-checks.ts';

export const CHECKS: readonly Check[] = [
  CONFIGURATION,
  HOST_NAME,
  HOSTS_FILE,
  SOURCE_ADDRESSES,
  OUTGOING_PORT_25,
  RELAY,
  REVERSE_DNS,
  HELO_NAME,
  BLOCK_LISTS,
  BLOCK_LISTS_OF_NAMES,
  RESOLVER,
  RESOLVER_HONESTY,
  DNS_OVER_TCP,
  DNSSEC,
  DATABASE,
  DATABASE_DURABILITY,
  DATABASE_CONNECTIONS,
  DATABASE_WRAPAROUND,
  DATABASE_SPEED,
  DATABASE_REPLICATION,
  CLOCK,
  DISK_SPACE,
  DURABLE_WRITES,
  MEMORY,
  OPEN_FILES,
  LOCAL_PORTS,
  NODE_VERSION,
  DATA_DIRECTORY,
  SECRET_KEY,
  USER,
  LISTENERS,
  TEST_SETTINGS,
  CERTIFICATES,
  INBOUND_PORT,
  OPEN_RELAY,
  PUBLIC_URL,
  BACKUP,
  QUEUE,
  CONDITIONS,
  DOMAIN_RECORDS,
  DOMAIN_DMARC,
  DOMAIN_REPLIES,
  DOMAIN_MTA_STS,
  DOMAIN_TLS_REPORTS,
  DOMAIN_BIMI,
  DOMAIN_AGE,
  BULK_GMAIL,
  BULK_YAHOO,
  BULK_MICROSOFT,
];
