-- A store of the first version: one query, one message, one notification, one delivery, one dead letter.
PRAGMA journal_mode = WAL;
PRAGMA application_id = 1952542057;
BEGIN TRANSACTION;
CREATE TABLE adapters (
	name VARCHAR NOT NULL,
	desired VARCHAR NOT NULL,
	status VARCHAR NOT NULL,
	last_error VARCHAR,
	read_count INTEGER NOT NULL,
	dead_count INTEGER NOT NULL,
	last_batch_at DATETIME,
	updated_at DATETIME NOT NULL,
	PRIMARY KEY (name),
	CONSTRAINT adapters_desired CHECK (desired IN ('running', 'paused', 'stopped'))
);
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE batches (
	stream VARCHAR NOT NULL,
	batch_id INTEGER NOT NULL,
	revision INTEGER NOT NULL,
	done INTEGER NOT NULL,
	read_count INTEGER NOT NULL,
	matched_count INTEGER NOT NULL,
	notification_count INTEGER NOT NULL,
	dead_count INTEGER NOT NULL,
	pinned_at DATETIME NOT NULL,
	committed_at DATETIME,
	PRIMARY KEY (stream, batch_id)
);
INSERT INTO "batches" VALUES('s',0,1,1,2,1,1,1,'2026-11-21 12:00:00.000000','2026-11-21 12:00:01.000000');
CREATE TABLE dead_letters (
	source VARCHAR NOT NULL,
	partition VARCHAR NOT NULL,
	"offset" BIGINT NOT NULL,
	reason VARCHAR NOT NULL,
	raw BLOB NOT NULL,
	created_at DATETIME NOT NULL,
	PRIMARY KEY (source, partition, "offset")
);
INSERT INTO "dead_letters" VALUES('inbox','mail/a.mbox',9,'no header',X'FF','2026-11-21 12:00:00.500000');
CREATE TABLE deliveries (
	id INTEGER NOT NULL,
	notification_id VARCHAR NOT NULL,
	name VARCHAR NOT NULL,
	state VARCHAR NOT NULL,
	attempts INTEGER NOT NULL,
	next_attempt_at DATETIME NOT NULL,
	reason VARCHAR,
	updated_at DATETIME NOT NULL,
	PRIMARY KEY (id),
	CONSTRAINT deliveries_once UNIQUE (notification_id, name),
	CONSTRAINT deliveries_state CHECK (state IN ('pending', 'delivered', 'dead')),
	FOREIGN KEY(notification_id) REFERENCES outbox (notification_id)
);
INSERT INTO "deliveries" VALUES(1,'n1','outbox','pending',2,'2026-11-21 12:00:00.500000','down','2026-11-21 12:00:02.000000');
CREATE TABLE delivery_files (
	name VARCHAR NOT NULL,
	path VARCHAR NOT NULL,
	size_bytes BIGINT NOT NULL,
	PRIMARY KEY (name, path)
);
CREATE TABLE messages (
	source VARCHAR NOT NULL,
	partition VARCHAR NOT NULL,
	"offset" BIGINT NOT NULL,
	topic VARCHAR NOT NULL,
	properties VARCHAR NOT NULL,
	body VARCHAR,
	xml VARCHAR,
	PRIMARY KEY (source, partition, "offset")
);
INSERT INTO "messages" VALUES('inbox','mail/a.mbox',7,'mail.inbox','{}','Plant the garlic',NULL);
CREATE TABLE outbox (
	seq INTEGER NOT NULL,
	notification_id VARCHAR NOT NULL,
	query_key VARCHAR NOT NULL,
	query_version INTEGER NOT NULL,
	source VARCHAR NOT NULL,
	partition VARCHAR NOT NULL,
	"offset" BIGINT NOT NULL,
	stream VARCHAR NOT NULL,
	batch_id INTEGER NOT NULL,
	created_at DATETIME NOT NULL,
	PRIMARY KEY (seq),
	CONSTRAINT outbox_notification_id UNIQUE (notification_id),
	FOREIGN KEY(query_key, query_version) REFERENCES query_versions ("key", version),
	FOREIGN KEY(source, partition, "offset") REFERENCES messages (source, partition, "offset"),
	FOREIGN KEY(stream, batch_id) REFERENCES batches (stream, batch_id)
);
INSERT INTO "outbox" VALUES(1,'n1','frost',1,'inbox','mail/a.mbox',7,'s',0,'2026-11-21 12:00:00.500000');
CREATE TABLE query_versions (
	"key" VARCHAR NOT NULL,
	version INTEGER NOT NULL,
	place INTEGER NOT NULL,
	text VARCHAR NOT NULL,
	language VARCHAR NOT NULL,
	owner VARCHAR NOT NULL,
	tags JSON NOT NULL,
	deliveries JSON NOT NULL,
	created_at DATETIME NOT NULL,
	from_revision INTEGER NOT NULL,
	to_revision INTEGER,
	PRIMARY KEY ("key", version),
	FOREIGN KEY(from_revision) REFERENCES revisions (revision),
	FOREIGN KEY(to_revision) REFERENCES revisions (revision)
);
INSERT INTO "query_versions" VALUES('frost',1,1,'a = 1','selector','','[]','["outbox"]','2026-11-21 12:00:00.000000',1,NULL);
CREATE TABLE revisions (
	revision INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
	created_at DATETIME NOT NULL
);
INSERT INTO "revisions" VALUES(1,'2026-11-21 12:00:00.000000');
CREATE INDEX query_versions_place ON query_versions (place);
CREATE UNIQUE INDEX query_versions_current ON query_versions ("key") WHERE to_revision IS NULL;
CREATE INDEX outbox_query_key ON outbox (query_key, seq);
CREATE INDEX deliveries_due ON deliveries (state, name, next_attempt_at, id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('revisions',1);
COMMIT;
