# The image of Letterhaus, for amd64 and arm64 (docs/docker.md). It runs the bundled Node and PostgreSQL as an ordinary
# user without any capability, and writes into /data and /tmp only. `npm run image-check` follows this file step by step
# without Docker.

FROM node:26-trixie-slim AS build
WORKDIR /opt/letterhaus
COPY . .
# Afterwards remove what only builds the dashboard and the handbook.
RUN bin/letterhaus install && rm -rf bench test tsconfig.json web/build.js web/handbook web/public web/src

FROM debian:trixie-slim
# libatomic1: the bundled Node needs it. tini: PID 1 that collects ended processes of PostgreSQL.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends libatomic1 tini && rm -rf /var/lib/apt/lists/*
# PostgreSQL asks for the name of its user. A new volume gets the owner and the mode of /data.
RUN useradd --uid 10001 --user-group --no-create-home --home-dir /data --shell /usr/sbin/nologin letterhaus && \
  install -d -m 700 -o letterhaus -g letterhaus /data
COPY --from=build /opt/letterhaus /opt/letterhaus
RUN ln -s /opt/letterhaus/bin/letterhaus /usr/local/bin/letterhaus
USER 10001:10001
WORKDIR /data
# PORT is set, so that a port in use is an error instead of a reason to take the next one.
ENV HOST=0.0.0.0 PORT=3000 LETTERHAUS_DATA_DIR=/data NODE_COMPILE_CACHE=/data/compiled
VOLUME /data
EXPOSE 3000 2525 2587
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=120s CMD ["/opt/letterhaus/node_modules/.bin/node", "/opt/letterhaus/bin/healthcheck.js"]
ENTRYPOINT ["tini", "--", "letterhaus"]
CMD ["start"]
