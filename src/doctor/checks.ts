/** All checks, in the order of the report. docs/doctor.md has a section for each. */
import { CLOCK } from './database/clock.ts';
import * as server from './database/server.ts';
import * as bulk from './domains/bulk-senders.ts';
import * as policies from './domains/policies.ts';
import { DOMAIN_RECORDS } from './domains/records.ts';
import * as access from './machine/access.ts';
import { CERTIFICATES } from './machine/certificates.ts';
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
import * as resolver from './network/resolver.ts';
import { HELO_NAME, REVERSE_DNS } from './network/reverse-dns.ts';
import { SOURCE_ADDRESSES } from './network/sources.ts';
import type { Check } from './run-checks.ts';

export const CHECKS: readonly Check[] = [
  access.CONFIGURATION,
  HOST_NAME,
  HOSTS_FILE,
  SOURCE_ADDRESSES,
  OUTGOING_PORT_25,
  RELAY,
  REVERSE_DNS,
  HELO_NAME,
  BLOCK_LISTS,
  BLOCK_LISTS_OF_NAMES,
  resolver.RESOLVER,
  resolver.RESOLVER_HONESTY,
  resolver.DNS_OVER_TCP,
  resolver.DNSSEC,
  server.DATABASE,
  server.DATABASE_DURABILITY,
  server.DATABASE_CONNECTIONS,
  server.DATABASE_WRAPAROUND,
  server.DATABASE_SPEED,
  CLOCK,
  DISK_SPACE,
  DURABLE_WRITES,
  MEMORY,
  OPEN_FILES,
  LOCAL_PORTS,
  access.DATA_DIRECTORY,
  access.SECRET_KEY,
  access.USER,
  access.LISTENERS,
  access.TEST_SETTINGS,
  CERTIFICATES,
  INBOUND_PORT,
  OPEN_RELAY,
  PUBLIC_URL,
  BACKUP,
  QUEUE,
  CONDITIONS,
  DOMAIN_RECORDS,
  policies.DOMAIN_DMARC,
  policies.DOMAIN_REPLIES,
  policies.DOMAIN_MTA_STS,
  policies.DOMAIN_TLS_REPORTS,
  policies.DOMAIN_BIMI,
  bulk.BULK_GMAIL,
  bulk.BULK_YAHOO,
  bulk.BULK_MICROSOFT,
];
